/** A run that hangs: one sentence about who waits for whom, and the stacks behind it. */
import { memo, useState, type ReactElement } from 'react';
import { clock } from '../numbers';
import type { RankView, RunView, StackGroup, StackRow, StallView } from '../protocol';
import type { Words } from '../words';
import { useSeconds } from './clocks';
import { Badge, Icon } from './Marks';

/** What a reader can do about it; null where nobody would hear of it. */
export interface StallActions {
  again: (() => void) | null;
  interrupt: ((rank: number) => void) | null;
}

export interface StallProps {
  view: RunView;
  stall: StallView;
  viewAt: number;
  now: () => number;
  words: Words;
  chinese: boolean;
  actions: StallActions;
  onCellLine: (line: number) => void;
}

/** The sentence, until the reader wants to wait on. */
export const StallBanner = memo(function StallBanner(props: StallProps): ReactElement | null {
  const { stall, words, chinese, actions } = props;
  const [kept, setKept] = useState<number | null>(null);
  const held = stall.groups.filter(group => group.kind === 'held').flatMap(group => group.ranks);
  // another stall is said again
  if (kept === stall.since) {
    return null;
  }
  return (
    <div className="nbdist-stall-banner" role="alert">
      <Icon name="warning" />
      <div className="nbdist-stall-text">
        <Quiet {...props} />
        <Sentence text={chinese ? stall.textZh : stall.text} groups={stall.groups} />
        {behindOf(stall, chinese) && <div className="nbdist-quiet">{behindOf(stall, chinese)}</div>}
      </div>
      <button type="button" className="nbdist-button" onClick={() => setKept(stall.since)}>
        {words.keepWaiting}
      </button>
      {held.length === 1 && actions.interrupt && (
        <button type="button" className="nbdist-button" onClick={() => actions.interrupt?.(held[0]!)}>
          {words.interrupt(held[0]!)}
        </button>
      )}
    </div>
  );
});

/** Where the ranks are. */
export const Stacks = memo(function Stacks(props: StallProps): ReactElement | null {
  const { view, stall, words, chinese, actions } = props;
  const [threads, setThreads] = useState(false);
  if (stall.groups.length === 0) {
    return null;
  }
  return (
    <div className="nbdist-stall">
      <div className="nbdist-tools nbdist-stall-tools">
        <b>{words.stacks}</b>
        <span className="nbdist-quiet">
          {words.stacksTaken(clock(stall.taken ?? 0), stall.groups.length)}
        </span>
        <span className="nbdist-space" />
        {actions.again && (
          <button type="button" className="nbdist-button" onClick={actions.again}>
            <Icon name="again" />
            {words.takeAgain}
          </button>
        )}
        {stall.groups.some(group => group.threads.length > 0) && (
          <button
            type="button"
            className="nbdist-button"
            aria-pressed={threads}
            onClick={() => setThreads(!threads)}
          >
            {words.allThreads}
          </button>
        )}
        <a className="nbdist-button" download={`${view.label}-stacks.txt`} href={saved(stall)}>
          <Icon name="download" />
          {words.download}
        </a>
      </div>
      {stall.groups.map(group => (
        <Group
          key={group.ranks.join()}
          group={group}
          threads={threads}
          words={words}
          chinese={chinese}
          onCellLine={props.onCellLine}
        />
      ))}
    </div>
  );
});

function behindOf(stall: StallView, chinese: boolean): string {
  return chinese ? stall.behindZh : stall.behind;
}

/** How long nothing has happened: it goes on while the kernel is silent. */
function Quiet({ view, stall, viewAt, now, words }: StallProps): ReactElement {
  const seconds = useSeconds(now, view.live);
  const quiet = view.elapsed + Math.max(0, seconds - viewAt) - stall.since;
  return <span>{words.noProgress(Math.max(0, Math.round(quiet)), stall.text !== '')}</span>;
}

/** The sentence, with the names of what is called in it as code. */
function Sentence({ text, groups }: { text: string; groups: readonly StackGroup[] }): ReactElement {
  const names = [...new Set(groups.map(group => group.what).filter(Boolean))];
  return (
    <span>
      {split(text, names).map((part, index) =>
        names.includes(part) ? <code key={index}>{part}</code> : <span key={index}>{part}</span>,
      )}
    </span>
  );
}

/** `text` in parts, each of `names` in one of its own. */
export function split(text: string, names: readonly string[]): string[] {
  if (names.length === 0) {
    return [text];
  }
  const longest = [...names].sort((one, other) => other.length - one.length);
  const pattern = longest.map(name => name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  return text.split(new RegExp(`(?<![\\w.])(${pattern})(?![\\w.]*\\w)`)).filter(Boolean);
}

interface GroupProps {
  group: StackGroup;
  threads: boolean;
  words: Words;
  chinese: boolean;
  onCellLine: (line: number) => void;
}

const SHOWN = 8;

export function Group({ group, threads, words, chinese, onCellLine }: GroupProps): ReactElement {
  return (
    <details className="nbdist-stack" open>
      <summary>
        <b>{words.ranks(group.ranks.length)}</b>
        {group.ranks.slice(0, SHOWN).map(rank => (
          <Badge key={rank} rank={rank} />
        ))}
        {group.ranks.length > SHOWN && <span>…</span>}
        <span className="nbdist-quiet">{chinese ? group.roleZh : group.role}</span>
      </summary>
      <Rows rows={group.rows} words={words} onCellLine={onCellLine} />
      {threads &&
        group.threads.map((rows, index) => (
          <div key={index}>
            <div className="nbdist-quiet nbdist-stack-thread">{words.thread(index + 1)}</div>
            <Rows rows={rows} words={words} onCellLine={onCellLine} />
          </div>
        ))}
    </details>
  );
}

function Rows({
  rows,
  words,
  onCellLine,
}: {
  rows: readonly StackRow[];
  words: Words;
  onCellLine: (line: number) => void;
}): ReactElement {
  return (
    <>
      {rows.map((row, index) => {
        const line = row.own ? lineOf(row.place) : null;
        return (
          <div key={index} className="nbdist-stack-row" data-here={row.here}>
            <span className="nbdist-cut">{row.function}</span>
            {line === null ? (
              <span className="nbdist-quiet nbdist-cut">
                {row.place === 'built-in' ? words.builtIn : row.place}
              </span>
            ) : (
              <button type="button" className="nbdist-stack-place" onClick={() => onCellLine(line)}>
                {words.cellLine(line)}
              </button>
            )}
            {row.source && (
              <span className="nbdist-cut nbdist-stack-source" title={row.source}>
                {row.source}
              </span>
            )}
          </div>
        );
      })}
    </>
  );
}

/** The line in `cell line 9`; a script's lines are not in the cell. */
function lineOf(place: string): number | null {
  const found = /^cell line (\d+)$/.exec(place);
  return found ? Number(found[1]) : null;
}

function saved(stall: StallView): string {
  const groups = stall.groups.map(group =>
    [
      `ranks ${group.ranks.join(', ')}: ${group.role}`,
      ...group.rows.map(row => `  ${row.here ? '>' : ' '} ${row.function}  ${row.place}  ${row.source}`),
    ].join('\n'),
  );
  return `data:text/plain;charset=utf-8,${encodeURIComponent([stall.text, ...groups].join('\n\n'))}`;
}

/** What a rank of a run that hangs does, for the strip: its state's word and shape, and the call. */
export type Held = Pick<StackGroup, 'kind' | 'what'>;

export function heldRanks(view: RunView): ReadonlyMap<number, Held> {
  if (!hangs(view)) {
    return new Map();
  }
  const groups = view.stall?.groups ?? [];
  return new Map<number, Held>([
    ...view.ranks.map(({ rank }) => [rank, { kind: 'is', what: '' }] as const),
    ...groups.flatMap(group => group.ranks.map(rank => [rank, group] as const)),
  ]);
}

export function hangs(view: RunView): boolean {
  return view.live && view.state === 'running' && view.stall !== null;
}

/** The words for what a rank does, in the place of its state. */
export function heldWord(rank: RankView, held: Held | undefined, words: Words): string {
  if (held === undefined || rank.state !== 'running') {
    return '';
  }
  if (held.kind === 'held') {
    return words.heldUp;
  }
  return held.kind === 'waits' || held.kind === 'loads' ? words.rankState.pending : words.stalled;
}
