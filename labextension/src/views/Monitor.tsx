/** The monitor: which rank runs where, whether it is healthy, and what is free. */
import { type ReactElement, useEffect, useRef, useState, useSyncExternalStore } from 'react';

import { plain } from '../log/ansi';
import type { MonitoredRun, MonitorFeed, Row } from '../model/monitor';
import type { PageAction } from '../page/actions';
import { pageWords } from '../words/panel';
import { Button, Mark, type MarkState } from './Marks';
import { useSeconds, useSize, useTheme } from './hooks';
import { Bar } from './ranks/rank_parts';

/** The requests of a monitor to the kernel and the page. */
export interface MonitorSource {
  feed: MonitorFeed;
  seen: (seen: boolean) => void;
  /** false when it could not be asked for */
  stop: (runId: string) => Promise<boolean>;
  /** null where the page cannot */
  act: ((action: PageAction, run: MonitoredRun, tab: 'all' | undefined, from: Element) => void) | null;
}

/** Ranks of a run that have a line each; more are drawn beside each other, and those in trouble above them. */
const LINES = 16;
/** seconds without news after which the page says of when they are */
const STALE = 6;

export function Monitor({ source }: { source: MonitorSource }): ReactElement {
  const { feed } = source;
  const words = pageWords();
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const { theme } = useTheme();
  const news = useSyncExternalStore(
    hear => feed.listen(hear),
    () => feed.news,
  );
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
          <div className="nbdist-head nbdist-mon-head">
            <b>{news.summary}</b>
            {news.ill && (
              <span className="nbdist-pill" data-state="failed" role="status">
                {news.ill}
              </span>
            )}
            <span className="nbdist-space" />
            <b>{news.free}</b>
          </div>
          <div className="nbdist-mon-titles">
            <Line {...news.titles} />
          </div>
          <div className="nbdist-mon-block nbdist-mon-others">
            {news.others.map((row, at) => (
              <Line key={at} {...row} />
            ))}
          </div>
          {news.runs.map(run => (
            <Run
              key={run.runId}
              run={run}
              stop={source.stop}
              act={source.act && ((action, tab) => source.act!(action, run, tab, root.current!))}
              onHint={magic => setHint(`${magic} ${run.run}`)}
            />
          ))}
          {news.lines.map(line => (
            <div className="nbdist-mon-text" key={line}>
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

/** Draw a run, and a line for each of its ranks. */
function Run({ run, stop, act, onHint }: RunProps): ReactElement {
  const words = pageWords();
  const [stopping, setStopping] = useState(false);
  const { rows, runId, run: label, lastLine } = run;
  const attach = (): void => (act ? act('attach') : onHint('%dist_attach'));
  const open = (): void => (act ? act('open') : attach());
  const log = (): void => (act ? act('open', 'all') : onHint('%dist_logs'));
  const ask = (): void => {
    setStopping(true);
    void stop(runId).then(setStopping);
  };
  const stopWord = stopping ? words.stopping : words.stop;
  const dense = rows.length > LINES;
  return (
    <div className="nbdist-mon-block" data-live={run.live}>
      <div className="nbdist-mon-run" role="group" aria-label={label}>
        <State {...run} />
        <button type="button" className="nbdist-mon-name" title={words.openDashboard} onClick={open}>
          {label}
        </button>
        <span className="nbdist-row nbdist-mon-about" title={lastLine}>
          {run.progress !== null && <Bar fraction={run.progress} />}
          <span className="nbdist-cut">{lastLine}</span>
        </span>
        <span className="nbdist-quiet">{run.ranks}</span>
        <span className="nbdist-end">{run.elapsed}</span>
        <span className="nbdist-mon-acts">
          {run.live && <Button icon="stop" bare label={stopWord} disabled={stopping} onClick={ask} />}
          <Button icon="attach" bare label={words.attach} onClick={attach} />
          {act && <Button icon="open" bare label={words.dashboard} onClick={open} />}
          <Button icon="lines" bare label={words.logs} onClick={log} />
        </span>
      </div>
      {rows.map(row => (row.ill || !dense) && <Line key={row.rank} {...row} />)}
      <div className="nbdist-mon-many">{dense && rows.map(row => <Small key={row.rank} {...row} />)}</div>
    </div>
  );
}

function State({ mark, state, ill }: Pick<Row, 'mark' | 'state' | 'ill'>): ReactElement {
  return (
    <span className="nbdist-row" data-ill={ill}>
      {mark && <Mark state={(mark === 'stalled' ? 'held' : mark) as MarkState} ofRank />}
      <span className="nbdist-cut">{state}</span>
    </span>
  );
}

function Meter({ text, share }: { text: string; share: number | null }): ReactElement {
  const [used, total] = text.split('/');
  return (
    <span className="nbdist-mon-meter">
      {share === null ? <i /> : <Bar fraction={share} />}
      <span className="nbdist-end">
        {used}
        {total && <span className="nbdist-quiet">/{total}</span>}
      </span>
    </span>
  );
}

function Line({ memoryShare, useShare, ...row }: Row): ReactElement {
  return (
    <div
      className="nbdist-mon-line"
      data-ill={row.ill}
      data-free={row.free}
      title={row.pid && `pid ${row.pid}`}
    >
      <span className="nbdist-end">{row.rank}</span>
      <span className="nbdist-cut">{row.device}</span>
      <Meter text={row.memory} share={memoryShare} />
      <Meter text={row.use} share={useShare} />
      <span className="nbdist-end">{row.rate}</span>
      <span className="nbdist-end nbdist-mon-samples">{row.samples}</span>
      <State {...row} />
      <span className="nbdist-cut nbdist-mon-last" title={row.lastLine}>
        {plain(row.lastLine)}
      </span>
    </div>
  );
}

/** Draw one of many ranks: the rest of its line is in its title. */
function Small({ rank, mark, device, memory, ...row }: Row): ReactElement {
  const [, name, node] = /^(.*?)(?: · node (\d+)| · .*)?$/.exec(device)!;
  const title = [device, memory, row.state, plain(row.lastLine)].filter(Boolean).join(' · ');
  return (
    <div className="nbdist-mon-small" data-ill={row.ill} title={title}>
      <span className="nbdist-end">{rank}</span>
      <State mark={mark} state="" ill={row.ill} />
      <span className="nbdist-cut">{node ? `n${node} ${name}` : name}</span>
      <Meter text={memory.replace(/\.\d\/.*/, ' GB')} share={row.memoryShare} />
      <Meter text={row.use} share={row.useShare} />
      <span className="nbdist-end">{row.rate}</span>
    </div>
  );
}

/** Say of when all this is, while no more comes. */
function Age({ time, feed }: { time: string; feed: MonitorFeed }): ReactElement | null {
  return useSeconds(true) - feed.newsAt < STALE ? null : (
    <div className="nbdist-note nbdist-calm" role="status">
      {pageWords().asOf(time)}
    </div>
  );
}
