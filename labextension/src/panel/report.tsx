/** The runs of a report, a page that nbdist/panel/report_file.py wrote once and that opens from a disk: what a kernel
 * would send of a run lies in the page. Draws each run in the place of its summary, which stays on paper. */
import { gunzipSync } from 'fflate';
import { type ReactElement, useMemo, useRef, useSyncExternalStore } from 'react';

import { overlay } from '../model/charts';
import { RunModel } from '../model/run_model';
import { decode, readFrame } from '../protocol/run';
import { Metrics } from '../views/charts/Metrics';
import { type RunHost, RunPage } from '../views/RunPage';
import { useTheme } from '../views/hooks';
import { drawInto, hideContent } from './draw';

/** curves beside each other above the log */
const CURVES = 3;

const NO_HOST: RunHost = { stop: () => Promise.resolve(null), board: null, again: null, interrupt: null };

/** Draw what the page holds. */
export function drawReport(page = document): void {
  followTheme(page.documentElement);
  const runs = [...page.querySelectorAll<HTMLElement>('[data-nbdist-run]')].map(place => {
    const run = new RunModel();
    hideContent(place);
    drawInto(place, ReportRun, { run });
    void play(run, [...place.querySelectorAll('script')]);
    return run;
  });
  const charts = page.querySelector<HTMLElement>('[data-nbdist-overlay]');
  if (charts) {
    hideContent(charts);
    drawInto(charts, ReportCharts, { runs });
  }
}

function ReportRun({ run }: { run: RunModel }): ReactElement {
  const root = useRef<HTMLElement>(null);
  return <RunPage model={run} host={NO_HOST} root={root} inCell label="" empty={<></>} curves={CURVES} />;
}

/** Draw the curves of all runs over each other. */
function ReportCharts({ runs }: { runs: readonly RunModel[] }): ReactElement {
  const version = useSyncExternalStore(
    changed => {
      const ends = runs.map(run => run.subscribe(changed));
      return () => ends.forEach(end => end());
    },
    () => runs.reduce((sum, run) => sum + run.version, 0),
  );
  // the version stands for all charts
  // eslint-disable-next-line react-hooks/exhaustive-deps
  const charts = useMemo(() => overlay(runs.map(run => run.charts)), [runs, version]);
  const { theme } = useTheme();
  return (
    <section className="nbdist" data-theme={theme}>
      <Metrics charts={charts} runs={{ names: runs.map(run => run.view?.label ?? '') }} onBoard={null} />
    </section>
  );
}

/** Give the model all messages, each in a turn of its own. */
async function play(run: RunModel, messages: readonly Element[]): Promise<void> {
  for (const each of messages) {
    await new Promise(done => setTimeout(done));
    const packed = Uint8Array.from(atob(each.textContent), letter => letter.charCodeAt(0));
    const { header, buffers } = readFrame(gunzipSync(packed).slice().buffer);
    const message = decode(header, buffers);
    if (message) {
      run.receive(message);
    }
  }
}

/** Keep the page light or dark as the system is: the summaries follow its root element. */
function followTheme(page: HTMLElement): void {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = (): void => void (page.dataset['jpThemeLight'] = String(!dark.matches));
  follow();
  dark.addEventListener('change', follow);
}
