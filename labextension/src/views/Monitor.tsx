/** The monitor: which rank runs where, whether it is healthy, and what is free. */
import { type ReactElement, useEffect, useRef, useState, useSyncExternalStore } from 'react';

import { plain } from '../log/ansi';
import { dotted, stepOf } from '../words/formats';
import type { MonitoredRun, MonitorFeed, Row } from '../model/monitor';
import type { PageAction } from '../page/actions';
import { words } from '../words/panel';
import { Button, Mark, type MarkState } from './Marks';
import { useSeconds, useSize, useTheme } from './hooks';
import { Bar, Meter } from './ranks/rank_parts';

/** The requests of a monitor to the kernel and the page. */
export interface MonitorSource {
  feed: MonitorFeed;
  seen: (seen: boolean) => void;
  /** false when it could not be asked for */
  stop: (runId: string) => Promise<boolean>;
  /** null where the page cannot */
  act: ((action: PageAction, run: MonitoredRun, tab: 'all' | undefined, from: Element) => void) | null;
}

/** Ranks of a run that have a row each; more are squares beside each other, and those in trouble rows above them. */
const LINES = 16;
const COLUMNS = 8;
/** seconds without news after which the page says of when they are */
const STALE = 6;

export function Monitor({ source }: { source: MonitorSource }): ReactElement {
  const { feed } = source;
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const { theme } = useTheme();
  const news = useSyncExternalStore(feed.subscribe, () => feed.news);
  const [hint, setHint] = useState('');
  useSeen(root, source);
  return (
    <section
      className="nbdist nbdist-monitor"
      aria-label="%dist_status"
      ref={root}
      data-size={size}
      data-theme={theme}
      data-samples={news?.runs.some(({ rows }) => rows.some(({ samples }) => samples)) ?? false}
    >
      {news && (
        <>
          <div className="nbdist-row nbdist-head">
            <b>{news.summary}</b>
            {news.ill && (
              <span className="nbdist-pill" data-state="failed" role="status">
                {news.ill}
              </span>
            )}
            <span className="nbdist-space" />
            <b>{news.free}</b>
          </div>
          <div className="nbdist-table-frame" role="region" aria-label={words.rankList} tabIndex={0}>
            <table className="nbdist-table">
              <thead>
                <Cells {...news.titles} head />
              </thead>
              <tbody>
                {news.others.map((row, at) => (
                  <Cells key={at} {...row} other />
                ))}
              </tbody>
              {news.runs.map(run => (
                <Run
                  key={run.runId}
                  run={run}
                  stop={source.stop}
                  act={source.act && ((action, tab) => source.act!(action, run, tab, root.current!))}
                  onHint={magic => setHint(`${magic} ${run.run}`)}
                />
              ))}
            </table>
          </div>
          {news.lines.map(line => (
            <div className="nbdist-note nbdist-calm" key={line}>
              {line}
            </div>
          ))}
          {hint && (
            <div className="nbdist-note nbdist-calm" role="status">
              {words.sweepOpen} <code>{hint}</code>
            </div>
          )}
          <Age time={news.time} feed={feed} />
        </>
      )}
    </section>
  );
}

/** Tell the kernel whether a view of the monitor is seen. */
function useSeen(root: { current: HTMLElement | null }, { feed, seen }: MonitorSource): void {
  useEffect(() => {
    const view = {};
    let within = false;
    const tell = (): void => feed.see(view, within && !document.hidden, seen);
    const observer = new IntersectionObserver(entries => {
      within = entries.at(-1)!.isIntersecting;
      tell();
    });
    observer.observe(root.current!);
    document.addEventListener('visibilitychange', tell);
    return () => {
      observer.disconnect();
      document.removeEventListener('visibilitychange', tell);
      feed.see(view, false, seen);
    };
  }, [root, feed, seen]);
}

interface RunProps {
  run: MonitoredRun;
  stop: MonitorSource['stop'];
  /** null where the page cannot: then the reader is told which magic does */
  act: ((action: PageAction, tab?: 'all') => void) | null;
  onHint: (magic: string) => void;
}

/** Draw a run, and its ranks. */
function Run({ run, stop, act, onHint }: RunProps): ReactElement {
  const [stopping, setStopping] = useState(false);
  const { rows, runId, run: label, lastLine } = run;
  const attach = (): void => (act ? act('attach') : onHint('%dist_attach'));
  const open = (): void => (act ? act('open') : attach());
  const log = (): void => (act ? act('open', 'all') : onHint('%dist_logs'));
  const ask = (): void => {
    setStopping(true);
    void stop(runId).then(setStopping);
  };
  const dense = rows.length > LINES;
  return (
    <tbody data-live={run.live}>
      <tr className="nbdist-mon-run">
        <th scope="rowgroup" colSpan={COLUMNS}>
          <div className="nbdist-row" role="group" aria-label={label}>
            <State {...run} />
            <button
              type="button"
              className="nbdist-link nbdist-name"
              title={words.openDashboard}
              onClick={open}
            >
              {label}
            </button>
            <span className="nbdist-row nbdist-mon-about" title={lastLine}>
              {run.progress !== null && <Bar fraction={run.progress} />}
              <span className="nbdist-cut">{lastLine}</span>
            </span>
            <span className="nbdist-quiet">{run.ranks}</span>
            <span className="nbdist-mon-elapsed">{run.elapsed}</span>
            {run.live && (
              <Button
                icon="stop"
                bare
                label={stopping ? words.stopping : words.stop}
                disabled={stopping}
                onClick={ask}
              />
            )}
            <Button icon="attach" bare label={words.attach} onClick={attach} />
            {act && <Button icon="open" bare label={words.dashboard} onClick={open} />}
            <Button icon="lines" bare label={words.logs} onClick={log} />
          </div>
        </th>
      </tr>
      {rows.map(row => (row.ill || !dense) && <Cells key={row.rank} {...row} />)}
      {dense && (
        <tr>
          <td colSpan={COLUMNS}>
            <div className="nbdist-node">
              {rows.map(row => (
                <Square key={row.rank} {...row} />
              ))}
            </div>
          </td>
        </tr>
      )}
    </tbody>
  );
}

function State({ mark, state, ill }: Pick<Row, 'mark' | 'state' | 'ill'>): ReactElement {
  return (
    <span className="nbdist-row nbdist-mon-state" data-ill={ill}>
      {mark && <Mark state={(mark === 'stalled' ? 'held' : mark) as MarkState} />}
      <span className="nbdist-cut">{state}</span>
    </span>
  );
}

/** Draw the titles, a rank, or (`other`) a GPU and who uses it. What a rank in trouble wrote last stands below it
 * where there is no room beside it. */
function Cells({ head, other, ...row }: Row & { head?: boolean; other?: boolean }): ReactElement {
  const Cell = head ? 'th' : 'td';
  const last = plain(row.lastLine);
  return (
    <>
      <tr data-ill={row.ill} data-free={row.free} title={row.pid && `pid ${row.pid}`}>
        <Cell className="nbdist-quiet nbdist-end">{row.rank}</Cell>
        <Cell>{row.device}</Cell>
        <Cell>
          <Meter text={row.memory} share={row.memoryShare} />
        </Cell>
        <Cell>
          <Meter text={row.use} share={row.useShare} />
        </Cell>
        <Cell className="nbdist-end nbdist-mon-rate">{row.rate}</Cell>
        <Cell className="nbdist-end nbdist-mon-samples nbdist-roomy">{row.samples}</Cell>
        <Cell colSpan={other ? 2 : 1}>
          <State {...row} state={other ? dotted(row.state, last) : row.state} />
        </Cell>
        {!other && (
          <Cell className="nbdist-last nbdist-roomy" title={row.lastLine}>
            {last}
          </Cell>
        )}
      </tr>
      {row.ill && last && (
        <tr data-ill className="nbdist-mon-below">
          <td />
          <td colSpan={COLUMNS - 1} className="nbdist-last">
            {last}
          </td>
        </tr>
      )}
    </>
  );
}

/** Draw one of many ranks, coloured by its use; the rest is in its title. */
function Square({ rank, device, memory, use, ...row }: Row): ReactElement {
  const title = dotted(device, row.state, memory, use, plain(row.lastLine));
  return (
    <span
      className="nbdist-heat-cell"
      role="img"
      aria-label={`${rank}: ${title}`}
      title={title}
      data-step={stepOf(row.useShare, 1) ?? 'none'}
      data-state={row.ill ? 'failed' : row.mark}
    >
      {rank}
    </span>
  );
}

/** Say of when all this is, while no more comes. */
function Age({ time, feed }: { time: string; feed: MonitorFeed }): ReactElement | null {
  return useSeconds(true) - feed.newsAt < STALE ? null : (
    <div className="nbdist-note nbdist-calm" role="status">
      {words.asOf(time)}
    </div>
  );
}
