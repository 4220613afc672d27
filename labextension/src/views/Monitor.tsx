/** The monitor: which rank runs where, whether it is healthy, and what is free. */
import { type ReactElement, useEffect, useRef, useState, useSyncExternalStore } from 'react';

import { plain } from '../log/line_text';
import type { MonitoredGpu, MonitoredRun, MonitorFeed, Overview } from '../monitor';
import { bytes, bytesOf, clock, doneText, memory, percent, rate, utilisation } from '../numbers';
import type { PageAction } from '../page';
import { localized, pageWords } from '../words';
import { Button, Mark } from './Marks';
import { hangs } from './Stall';
import { useSeconds, useSize, useTheme } from './hooks';
import { Bar, type Standing, StateMark, useStandings, wordOf } from './rank_parts';

/** The requests of a monitor to the kernel and the page. */
export interface MonitorSource {
  feed: MonitorFeed;
  seen: (seen: boolean) => void;
  again: () => void;
  /** false when it could not be asked for */
  stop: (runId: string) => Promise<boolean>;
  /** null where the page cannot */
  act: ((action: PageAction, run: MonitoredRun, from: Element) => void) | null;
}

/** Ranks of a run that have a line each; more are drawn beside each other, and those in trouble above them. */
const LINES = 16;
/** Seconds without news after which it is said of when they are, and between two words that the monitor is seen. */
const STALE = 6;
const SAY = 10;

export function Monitor({ source }: { source: MonitorSource }): ReactElement | null {
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
  const live = news?.runs.filter(run => run.live) ?? [];
  const ended = news?.runs.filter(run => !run.live) ?? [];
  const samples = live.some(run => run.samples.some(value => value !== null));
  return (
    <section
      className="nbdist nbdist-monitor"
      role="region"
      aria-label={words.monitor}
      ref={root}
      data-size={size}
      data-theme={theme}
      data-samples={samples}
    >
      {news && (
        <>
          <Summary news={news} live={live} />
          <div className="nbdist-mon-line nbdist-mon-titles">
            <span>{words.rank}</span>
            <span>{words.device}</span>
            <span>{words.memory}</span>
            <span>{words.utilisation}</span>
            <span className="nbdist-end">{words.steps}</span>
            <span className="nbdist-end nbdist-mon-samples">{samples && words.samples}</span>
            <span>{words.state}</span>
            <span className="nbdist-mon-last">{words.doing}</span>
          </div>
          <Machine {...news} />
          {[...live, ...ended].map(run => (
            <Run
              key={run.runId}
              run={run}
              gpus={news.gpus}
              source={source}
              from={() => root.current!}
              onHint={setHint}
            />
          ))}
          {news.warm.ranks > 0 && <Warm {...news.warm} />}
          {[...news.lines, ...(news.runs.length ? [] : [words.nothingRuns])].map(line => (
            <div className="nbdist-mon-text" key={line}>
              {line}
            </div>
          ))}
          {hint && (
            <div className="nbdist-note nbdist-calm" role="status">
              {words.sweepOpen} <code>{hint}</code>
            </div>
          )}
          <Age news={news} source={source} />
        </>
      )}
    </section>
  );
}

/** Tell the kernel whether a view of the monitor is seen. */
function useSeen(root: { current: HTMLElement | null }, source: MonitorSource): void {
  useEffect(() => {
    let within = false;
    let told: boolean | null = null;
    const tell = (again: boolean): void => {
      const seen = within && !document.hidden;
      if (seen !== told || (again && seen)) {
        told = seen;
        source.seen(seen);
      }
    };
    const observer = new IntersectionObserver(entries => {
      within = entries.at(-1)!.isIntersecting;
      tell(false);
    });
    const turned = (): void => tell(false);
    observer.observe(root.current!);
    document.addEventListener('visibilitychange', turned);
    const timer = setInterval(() => tell(true), SAY * 1000);
    return () => {
      observer.disconnect();
      document.removeEventListener('visibilitychange', turned);
      clearInterval(timer);
    };
  }, [root, source]);
}

/** Draw `2 runs · 66 ranks`, how many are in trouble, and what is free. */
function Summary({ news, live }: { news: Overview; live: readonly MonitoredRun[] }): ReactElement {
  const words = pageWords();
  const ill = live.filter(
    run => hangs(run) || run.slow || run.ranks.some(rank => BAD.has(rank.state)),
  ).length;
  const ranks = live.reduce((sum, run) => sum + run.size, 0);
  const free = news.gpus.filter(gpu => !gpu.taken).length;
  const { cpu, memory: used, memoryTotal: total } = news.machine;
  return (
    <div className="nbdist-head nbdist-mon-head">
      <b>{live.length ? words.runsAndRanks(live.length, ranks) : words.nothingRuns}</b>
      {ill > 0 && (
        <span className="nbdist-pill" data-state="failed" role="status">
          {words.unhealthy(ill)}
        </span>
      )}
      <span className="nbdist-space" />
      {news.gpus.length > 0 && (
        <>
          <b>{words.gpusFree(free, news.gpus.length)}</b>
          <span className="nbdist-quiet nbdist-mon-cpu">
            {[cpu !== null && `CPU ${percent(cpu)}`, used !== null && total && bytesOf(used, total).join('/')]
              .filter(Boolean)
              .join(' · ')}
          </span>
        </>
      )}
    </div>
  );
}

const BAD = new Set<string>(['failed', 'lost']);

/** Draw the GPUs and who uses them; without any, the CPU. */
function Machine({ gpus, machine }: Overview): ReactElement {
  const words = pageWords();
  return (
    <div className="nbdist-mon-block">
      {gpus.map(gpu => (
        <div className="nbdist-mon-line" data-free={!gpu.taken} key={gpu.index}>
          <span />
          <span className="nbdist-cut">{gpuName(gpu)}</span>
          <Meter used={gpu.memory} total={gpu.memoryTotal} />
          <Use percentage={gpu.utilisation} />
          <span className="nbdist-end nbdist-quiet">
            {gpu.temperature === null ? '' : `${gpu.temperature} °C`}
          </span>
          <span className="nbdist-mon-samples" />
          <span>{gpu.taken ? words.inUse : words.free}</span>
          <span className="nbdist-cut nbdist-mon-last">{gpu.users.map(({ text }) => text).join(', ')}</span>
        </div>
      ))}
      {!gpus.length && (
        <div className="nbdist-mon-line">
          <span />
          <span className="nbdist-cut">{words.cores(machine.cores)}</span>
          <Meter used={machine.memory} total={machine.memoryTotal} />
          <Use percentage={machine.cpu} />
        </div>
      )}
    </div>
  );
}

function gpuName({ index, name }: MonitoredGpu): string {
  return `GPU ${index} · ${name.replace(/^NVIDIA /, '')}`;
}

function Meter({ used, total }: { used: number | null; total: number | null }): ReactElement {
  const text = used === null ? ['', ''] : total ? bytesOf(used, total) : [bytes(used), ''];
  return (
    <span className="nbdist-mon-meter">
      {used !== null && total ? <Bar fraction={used / total} /> : <span />}
      <span className="nbdist-end">
        {text[0]}
        {text[1] && <span className="nbdist-quiet">/{text[1]}</span>}
      </span>
    </span>
  );
}

function Use({ percentage }: { percentage: number | null }): ReactElement {
  return (
    <span className="nbdist-mon-meter nbdist-mon-use">
      {percentage === null ? <span /> : <Bar fraction={percentage / 100} />}
      <span className="nbdist-end">{percentage === null ? '' : percent(percentage)}</span>
    </span>
  );
}

interface RunProps {
  run: MonitoredRun;
  gpus: readonly MonitoredGpu[];
  source: MonitorSource;
  /** an element of the monitor */
  from: () => Element;
  onHint: (line: string) => void;
}

const NO_SAMPLES: ReadonlyMap<number, readonly number[]> = new Map();
const NO_WAITS: ReadonlyMap<number, number> = new Map();

/** Draw a run, and a line for each of its ranks. */
function Run({ run, gpus, source, from, onHint }: RunProps): ReactElement {
  const words = pageWords();
  const standings = useStandings({
    view: run,
    utilisation: NO_SAMPLES,
    waits: NO_WAITS,
    size: 'wide',
    onOpen: () => undefined,
  });
  const [stopping, setStopping] = useState(false);
  const stalled = hangs(run);
  const bad = stalled || BAD.has(run.state);
  const word = run.idle ? words.idle : stalled ? words.stalled : words.run[run.state];
  const left = run.progress?.remaining;
  const about = [
    run.session && words.session,
    doneText(run.live ? run.progress : null),
    run.live && run.progress?.text,
    run.live && typeof left === 'number' && words.left(clock(left)),
    stalled && run.stall && localized(run.stall.text),
    run.slow && localized(run.slow.reason),
    localized(run.reason),
    run.about,
    ...run.warnings.map(({ text }) => localized(text)),
  ].filter(Boolean);
  const act = (action: PageAction, magic: string) => () => {
    if (source.act) {
      source.act(action, run, from());
    } else {
      onHint(`%dist_${magic} ${run.label}`);
    }
  };
  const stop = (): void => {
    setStopping(true);
    void source.stop(run.runId).then(accepted => setStopping(accepted));
  };
  const dense = run.ranks.length > LINES;
  const lines = dense ? standings.filter(troubled) : standings;
  const device = (name: string): string => {
    const gpu = gpus.find(({ index }) => name === `GPU ${index}`);
    return gpu ? gpuName(gpu) : name;
  };
  return (
    <div className="nbdist-mon-block" data-live={run.live}>
      <div className="nbdist-mon-run">
        <span className="nbdist-row" data-bad={bad}>
          <Mark state={stalled ? 'held' : run.state} />
          {word}
        </span>
        <button
          type="button"
          className="nbdist-mon-name"
          title={words.openDashboard}
          onClick={act('open', 'attach')}
        >
          {run.label}
        </button>
        <span className="nbdist-row nbdist-mon-about">
          {run.live && run.progress && (
            <span className="nbdist-progress" aria-hidden="true">
              <i style={{ width: `${100 * run.progress.fraction}%` }} />
            </span>
          )}
          <span className="nbdist-cut" title={about.join(' · ')}>
            {about.join(' · ')}
          </span>
        </span>
        <span className="nbdist-quiet nbdist-mon-size">{words.ranks(run.size)}</span>
        <span className="nbdist-end">{clock(run.elapsed)}</span>
        <span className="nbdist-mon-acts">
          {run.live && (
            <Button
              icon="stop"
              bare
              label={stopping ? words.stopping : words.stop}
              disabled={stopping}
              onClick={stop}
            />
          )}
          <Button icon="attach" bare label={words.attach} onClick={act('attach', 'attach')} />
          {source.act && <Button icon="open" bare label={words.dashboard} onClick={act('open', 'attach')} />}
          <Button icon="lines" bare label={words.logs} onClick={act('open', 'logs')} />
        </span>
      </div>
      {lines.map(standing => (
        <Line
          key={standing.rank.rank}
          standing={standing}
          device={device(standing.rank.device)}
          samples={run.samples[run.ranks.indexOf(standing.rank)] ?? null}
        />
      ))}
      {dense && (
        <div className="nbdist-mon-many">
          {standings.map(standing => (
            <Small key={standing.rank.rank} standing={standing} name={device(standing.rank.device)} />
          ))}
        </div>
      )}
    </div>
  );
}

/** Return true for a rank that needs a look. */
function troubled({ rank, held, slow }: Standing): boolean {
  return BAD.has(rank.state) || held?.kind === 'held' || Boolean(slow && rank.state === 'running');
}

interface LineProps {
  standing: Standing;
  device: string;
  samples: number | null;
}

function Line({ standing, device, samples }: LineProps): ReactElement {
  const { rank } = standing;
  const used = memory(rank);
  const doing = standing.held?.what || localized(rank.exit);
  return (
    <div
      className="nbdist-mon-line"
      data-bad={troubled(standing)}
      title={rank.pid === null ? '' : `pid ${rank.pid}`}
    >
      <span className="nbdist-end">{rank.rank}</span>
      <span className="nbdist-cut">{device}</span>
      <Meter used={used?.used ?? null} total={used?.total ?? null} />
      <Use percentage={utilisation(rank)} />
      <span className="nbdist-end">{rank.rate === null ? '' : rate(rank.rate)}</span>
      <span className="nbdist-end nbdist-mon-samples">{samples === null ? '' : rate(samples)}</span>
      <span className="nbdist-row">
        <StateMark {...standing} />
        <span className="nbdist-cut">
          {[wordOf(standing), doing].filter(Boolean).join(pageWords().comma)}
        </span>
      </span>
      <code className="nbdist-cut nbdist-mon-last">{plain(rank.lastLine)}</code>
    </div>
  );
}

/** Draw one of many ranks: what its line says is in its title. */
function Small({ standing, name }: { standing: Standing; name: string }): ReactElement {
  const { rank } = standing;
  const used = memory(rank);
  const use = utilisation(rank);
  return (
    <div
      className="nbdist-mon-small"
      data-bad={troubled(standing)}
      title={[name, wordOf(standing), localized(rank.exit), plain(rank.lastLine)].filter(Boolean).join(' · ')}
    >
      <span className="nbdist-end">{rank.rank}</span>
      <StateMark {...standing} />
      <span className="nbdist-cut">{rank.device}</span>
      {used?.total ? <Bar fraction={used.used / used.total} /> : <span />}
      <span className="nbdist-end">{used ? bytes(used.used) : ''}</span>
      {use === null ? <span /> : <Bar fraction={use / 100} />}
      <span className="nbdist-end">{use === null ? '' : percent(use)}</span>
      <span className="nbdist-end">{rank.rate === null ? '' : rate(rank.rate)}</span>
    </div>
  );
}

function Warm({ ranks, framework, ready, shared }: Overview['warm']): ReactElement {
  const words = pageWords();
  return (
    <div className="nbdist-mon-block">
      <div className="nbdist-mon-run">
        <span className="nbdist-row">
          <Mark state={ready ? 'starting' : 'pending'} />
          {ready ? words.warmReady : words.warmImporting}
        </span>
        <span className="nbdist-cut">{words.warmName}</span>
        <span className="nbdist-cut nbdist-mon-about">
          {words.warmRanks(ranks, framework)} · {bytes(shared)}
        </span>
      </div>
    </div>
  );
}

/** Say of when all this is, once no more comes. */
function Age({ news, source }: { news: Overview; source: MonitorSource }): ReactElement | null {
  const words = pageWords();
  const seconds = useSeconds(true);
  const time = new Date(news.now * 1000).toLocaleTimeString('en-GB');
  if (!news.paused && seconds - source.feed.newsAt < STALE) {
    return null;
  }
  return (
    <div className="nbdist-note nbdist-calm nbdist-row" role="status">
      {news.paused ? words.pausedAt(time) : words.asOf(time)}
      {news.paused && <Button label={words.goOn} onClick={source.again} />}
    </div>
  );
}
