/** Up to eight ranks, each with a cell; where it is narrow, each with a line. */
import { memo, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { moved } from '../keys';
import {
  bytes,
  bytesOf,
  device,
  memory,
  milliseconds,
  percent,
  rate,
  stepParts,
  utilisation,
} from '../numbers';
import type { RankView, SlowView } from '../protocol';
import type { Words } from '../words';
import type { Size } from './clocks';
import { Badge, HeldMark, rankColour, RankMark } from './Marks';
import { Bar, fullUse, Sparkline } from './Meters';
import { heldWord, type Held } from './Stall';

export interface StripProps {
  ranks: readonly RankView[];
  live: boolean;
  failedFirst: number | null;
  held: ReadonlyMap<number, Held>;
  slow: SlowView | null;
  utilisation: ReadonlyMap<number, readonly number[]>;
  waits: ReadonlyMap<number, number>;
  size: Size;
  words: Words;
  onOpen: (rank: number) => void;
}

const NONE: readonly number[] = [];

export const RankStrip = memo(function RankStrip(props: StripProps): ReactElement {
  const { ranks, live, size, words, onOpen } = props;
  const [current, setCurrent] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const narrow = size === 'narrow';
  const Cell = !live ? EndedCell : narrow ? RankLine : RankCell;

  const key = (event: KeyboardEvent): void => {
    const to = moved(event.key, current, ranks.length);
    if (event.key === 'Enter' && event.target !== event.currentTarget) {
      onOpen(ranks[current]!.rank);
    } else if (to !== null) {
      setCurrent(to);
      list.current?.querySelectorAll<HTMLElement>('.nbdist-rank')[to]?.focus();
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div
      role="list"
      aria-label={words.rankList}
      className="nbdist-strip"
      data-narrow={narrow}
      ref={list}
      style={{ gridTemplateColumns: `repeat(${columns(ranks.length, size)}, minmax(0, 1fr))` }}
      onKeyDown={key}
    >
      {ranks.map((rank, index) => (
        <Cell
          key={rank.rank}
          rank={rank}
          first={rank.rank === props.failedFirst}
          held={props.held.get(rank.rank)}
          slow={props.slow?.rank === rank.rank ? props.slow : null}
          samples={props.utilisation.get(rank.rank) ?? NONE}
          wait={props.waits.get(rank.rank)}
          focusable={index === Math.min(current, ranks.length - 1)}
          words={words}
          onOpen={onOpen}
        />
      ))}
    </div>
  );
});

/** At most four in a row, and rows of about the same length. */
function columns(count: number, size: Size): number {
  const most = size === 'narrow' ? 1 : size === 'medium' ? 2 : 4;
  return Math.max(1, Math.ceil(count / Math.ceil(count / most)));
}

interface CellProps extends Standing {
  slow: SlowView | null;
  samples: readonly number[];
  wait: number | undefined;
  focusable: boolean;
  onOpen: (rank: number) => void;
}

function frameOf(props: CellProps): object {
  const { rank, focusable, words, onOpen } = props;
  const name = [words.rankNumber(rank.rank), device(rank.device), wordOf(props), words.told(rank.exit)];
  return {
    role: 'listitem',
    tabIndex: focusable ? 0 : -1,
    'aria-label': name.filter(Boolean).join(', '),
    title: rank.pid === null ? undefined : `pid ${rank.pid}`,
    onClick: () => onOpen(rank.rank),
  };
}

/** What says how a rank stands. */
export interface Standing {
  rank: RankView;
  /** whether it failed before all others */
  first: boolean;
  held: Held | undefined;
  slow?: SlowView | null;
  words: Words;
}

/** What a rank is called: by what it does in a run that hangs, as the slowest, or by its state. */
export function wordOf({ rank, first, held, slow, words }: Standing): string {
  const state = first && rank.state === 'failed' ? words.failedFirst : words.rankState[rank.state];
  return heldWord(rank, held, words) || (slow && rank.state === 'running' ? words.slowest : state);
}

export function StateMark({
  rank,
  held,
  slow,
  title,
}: Standing & { title?: string | undefined }): ReactElement {
  if (rank.state !== 'running' || (held === undefined && !slow)) {
    return <RankMark state={rank.state} title={title} />;
  }
  const waits = held?.kind === 'waits' || held?.kind === 'loads';
  return <HeldMark kind={held === undefined ? 'slow' : waits ? 'waits' : 'held'} title={title} />;
}

/** What a rank uses is called otherwise once the run has ended: then it is the most memory, and means. */
export function measureNames(
  ranks: readonly RankView[],
  live: boolean,
  words: Words,
): Record<'utilisation' | 'memory' | 'rate', string> {
  const { utilisation, memory, gpuMemory, stepRate } = live ? words : words.onTheWhole;
  const onGpu = ranks.some(rank => rank.gpuMemory !== null);
  return { utilisation, memory: onGpu ? gpuMemory : memory, rate: stepRate };
}

/** `+18 ms`, `×1.6`: by how much a rank is slower than the others. */
export function overText(slow: SlowView, words: Words): string {
  return slow.over === null
    ? words.slowTimes(slow.factor.toFixed(1))
    : words.slowBy(slow.over.toFixed(slow.over < 10 ? 1 : 0));
}

const RankCell = memo(function RankCell(props: CellProps): ReactElement {
  const { rank, held, slow, words } = props;
  const frame = frameOf(props);
  const running = rank.state === 'running';
  const word = wordOf(props);
  if (held && running) {
    return (
      <div className={`nbdist-rank ${rankColour(rank.rank)}`} {...frame}>
        <div className="nbdist-row">
          <Badge rank={rank.rank} />
          <StateMark {...props} />
          <span className={held.kind === 'held' ? 'nbdist-strong' : ''}>{word}</span>
          <span className="nbdist-space" />
          <span className="nbdist-quiet nbdist-cut">{held.what}</span>
        </div>
      </div>
    );
  }
  return (
    <div className={`nbdist-rank ${rankColour(rank.rank)}`} {...frame}>
      <div className="nbdist-row">
        <Badge rank={rank.rank} />
        <span className="nbdist-cut">{device(rank.device)}</span>
        <span className="nbdist-space" />
        {!running && <span className="nbdist-quiet">{word}</span>}
        {running && slow && (
          <span className="nbdist-slow" title={slow.reason}>
            {word} {overText(slow, words)}
          </span>
        )}
        <StateMark {...props} title={word} />
      </div>
      {running || !rank.exit.en ? (
        <Meters {...props} />
      ) : (
        <div className="nbdist-exit">{words.told(rank.exit)}</div>
      )}
      <div className="nbdist-last">{plain(rank.lastLine)}</div>
    </div>
  );
});

/** Text in the first row, what it looks like in the second. The rows are there before anything was measured,
 * so that nothing below them moves when it is. */
function Meters({ rank, samples, wait, words }: CellProps): ReactElement {
  const used = memory(rank);
  const use = utilisation(rank);
  const step = stepParts(rank.rate, wait);
  return (
    <div className="nbdist-meters">
      {used && (
        <div className="nbdist-meter">
          <Memory rank={rank} />
          {used.total !== null && <Bar fraction={used.used / used.total} />}
        </div>
      )}
      {use !== null && (
        <div className="nbdist-meter">
          <span>{percent(use)}</span>
          <Sparkline samples={samples} full={fullUse(samples)} />
        </div>
      )}
      {rank.rate !== null && (
        <div className="nbdist-meter nbdist-steps">
          <span>{words.rate(rate(rank.rate))}</span>
          {step && <span className="nbdist-quiet">{words.own(milliseconds(step.own))}</span>}
        </div>
      )}
    </div>
  );
}

/** `11.2/80 GB`, or what is used where the whole is not known. */
export function Memory({ rank }: { rank: RankView }): ReactElement | null {
  const found = memory(rank);
  if (found === null) {
    return null;
  }
  if (found.total === null) {
    return <span>{bytes(found.used)}</span>;
  }
  const [used, total] = bytesOf(found.used, found.total);
  return (
    <span className="nbdist-cut">
      {used}
      <span className="nbdist-quiet">/{total}</span>
    </span>
  );
}

const RankLine = memo(function RankLine(props: CellProps): ReactElement {
  const { rank, held, words } = props;
  const frame = frameOf(props);
  const word = wordOf(props);
  const found = memory(rank);
  const running = rank.state === 'running';
  return (
    <div className={`nbdist-rank nbdist-rank-line ${rankColour(rank.rank)}`} {...frame}>
      <Badge rank={rank.rank} />
      <span className="nbdist-device">{device(rank.device)}</span>
      {found?.total ? <Bar fraction={found.used / found.total} /> : <span className="nbdist-space" />}
      {running ? (
        <Memory rank={rank} />
      ) : (
        <span className="nbdist-quiet">{words.told(rank.exit) || word}</span>
      )}
      {rank.rate !== null && <span className="nbdist-rate">{words.rate(rate(rank.rate))}</span>}
      {held && <span className="nbdist-quiet nbdist-cut">{held.what}</span>}
      <StateMark {...props} title={word} />
    </div>
  );
});

const EndedCell = memo(function EndedCell(props: CellProps): ReactElement {
  const { rank, first, words } = props;
  const frame = frameOf(props);
  return (
    <div className={`nbdist-rank nbdist-rank-line ${rankColour(rank.rank)}`} {...frame}>
      <Badge rank={rank.rank} />
      <RankMark state={rank.state} />
      <span className={first ? 'nbdist-strong' : ''}>{wordOf(props)}</span>
      <span className="nbdist-space" />
      <span className="nbdist-quiet nbdist-cut" title={words.told(rank.exit)}>
        {words.told(rank.exit)}
      </span>
    </div>
  );
});

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

export function plain(line: string): string {
  return line.replace(ESCAPES, '');
}
