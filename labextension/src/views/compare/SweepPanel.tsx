/** A sweep below its cell: its points as a table, and their curves over each other. */
import { type ReactElement, useCallback, useMemo, useRef, useState, useSyncExternalStore } from 'react';

import { columnKey, type SweepNews, sweepNews } from '../../model/comparison';
import { dotted } from '../../words/formats';
import { words } from '../../words/panel';
import { ComparedRuns } from './ComparedRuns';
import { ScaleView } from './ScaleView';
import { Button, Mark } from '../Marks';
import { useSize, useTheme } from '../hooks';

/** The requests of a panel to the sender of its sweep. */
export interface SweepSource {
  news: () => unknown;
  listen: (hear: () => void) => () => void;
  /** false when the reader has to interrupt the cell by hand */
  stop: () => Promise<boolean>;
  /** opens a run, where the page can */
  open: ((runId: string, label: string, from: Element) => void) | null;
}

/** pixels */
const PLOT_PX = 200;

export function SweepPanel({ source }: { source: SweepSource }): ReactElement {
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const { theme } = useTheme();
  const news = useSyncExternalStore(source.listen, source.news);
  const sweep = useMemo(() => sweepNews(news), [news]);
  const [note, setNote] = useState<{ text: string; code: string } | null>(null);
  const [stopping, setStopping] = useState(false);
  const { runs, sort, live } = sweep;
  const open = useCallback(
    (runId: string, from: Element): void => {
      const { state, label } = runs.find(run => run.runId === runId)!;
      if (state === 'pending') {
        setNote({ text: words.sweepNotBegun(label), code: '' });
      } else if (source.open) {
        source.open(runId, label, from);
      } else {
        setNote({ text: words.sweepOpen, code: `%dist_attach ${label}` });
      }
    },
    [runs, source],
  );
  const stop = (): void => {
    setStopping(true);
    void source.stop().then(accepted => {
      if (!accepted) {
        setStopping(false);
        setNote({ text: words.cannotStop(sweep.label), code: '' });
      }
    });
  };
  return (
    <section
      className="nbdist nbdist-sweep nbdist-compare"
      role="region"
      aria-label={`${words.sweepTitle} ${sweep.label}`}
      ref={root}
      data-size={size}
      data-theme={theme}
    >
      <div className="nbdist-row nbdist-head">
        <span className="nbdist-pill" role="status" data-state={sweep.state}>
          <Mark state={sweep.state} />
          {words.run[sweep.state]}
        </span>
        <span className="nbdist-name" title={sweep.sweepId}>
          {sweep.label}
        </span>
        <span className="nbdist-quiet">{countsText(sweep)}</span>
        <span className="nbdist-space" />
        {live && (
          <Button
            icon="stop"
            label={stopping ? words.stopping : words.stop}
            disabled={stopping}
            onClick={stop}
          />
        )}
      </div>
      {sweep.reason && (
        <div className="nbdist-note nbdist-calm" role="status">
          {sweep.reason}
        </div>
      )}
      {note && (
        <div className="nbdist-note nbdist-calm" role="status">
          {note.text} {note.code && <code>{note.code}</code>}
        </div>
      )}
      {sweep.scale ? (
        <ScaleView scale={sweep.scale} runs={runs} onOpen={open} />
      ) : (
        <ComparedRuns
          compared={sweep}
          names={runs.map(({ label }) => label)}
          curveNames={runs.map((_, run) => valuesText(sweep, run))}
          height={PLOT_PX}
          onOpen={open}
          sort={sort && { key: columnKey(sort), descending: sort.descending, order: sweep.order }}
        />
      )}
    </section>
  );
}

function countsText({ counts, live }: SweepNews): string {
  const { ended, points, failed, running, waiting } = counts;
  return dotted(
    words.sweepPoints(ended, points),
    failed > 0 && words.sweepFailed(failed),
    live && running > 0 && words.sweepRunning(running),
    live && waiting > 0 && words.sweepWaiting(waiting),
  );
}

/** Return the values that identify a point: `lr=0.1 width=64`. */
function valuesText({ rows }: SweepNews, run: number): string {
  return rows
    .filter(({ group }) => group === 'sweep')
    .map(({ name, values }) => `${name}=${String(values[run])}`)
    .join(' ');
}
