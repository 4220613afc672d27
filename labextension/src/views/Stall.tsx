/** A run that hangs: one sentence about who waits for whom, and the stacks behind it. */
import { memo, type ReactElement, type ReactNode, useState } from 'react';

import { clock } from '../words/formats';
import type { RankView, RunView, StackGroup, StackRow, StallView } from '../protocol/run';
import { localized } from '../words/languages';
import { words } from '../words/panel';
import { Badge, Button, Icon } from './Marks';
import { useElapsed } from './hooks';

interface BannerProps {
  view: RunView;
  stall: StallView;
  viewAt: number;
  /** null where the kernel would not receive it */
  interrupt: ((rank: number) => void) | null;
}

/** Draw the sentence, until the reader wants to wait on. */
export const StallBanner = memo(function StallBanner(props: BannerProps): ReactElement | null {
  const { stall, interrupt } = props;
  const [kept, setKept] = useState<number | null>(null);
  const [held, ...more] = stall.groups.filter(({ kind }) => kind === 'held').flatMap(({ ranks }) => ranks);
  const behind = localized(stall.behind);
  // another stall has its banner again
  if (kept === stall.since) {
    return null;
  }
  return (
    <div className="nbdist-stall-banner">
      <Icon name="warning" />
      <div className="nbdist-stall-text">
        <StallTimer {...props} />
        {/* without the seconds, or it would be read aloud again with each of them */}
        <span role="alert">
          {localized(stall.text)}
          {behind && <div className="nbdist-quiet">{behind}</div>}
        </span>
      </div>
      <Button label={words.keepWaiting} onClick={() => setKept(stall.since)} />
      {held !== undefined && !more.length && interrupt && (
        <Button label={words.interrupt(held)} onClick={() => interrupt(held)} />
      )}
    </div>
  );
});

interface StacksProps {
  /** null while they are not there */
  stall: StallView | null;
  /** null where the kernel would not receive it */
  again: (() => void) | null;
  /** true when they are being taken */
  taking?: boolean;
  onCellLine: (line: number) => void;
  /** copies a report */
  report?: ReactElement | undefined;
  /** in the place of stacks that are not there */
  children?: ReactNode;
}

/** Draw the stacks of the ranks, by group. */
export const Stacks = memo(function Stacks(props: StacksProps): ReactElement {
  const { stall, again, taking = false, onCellLine } = props;
  const groups = stall?.groups ?? [];
  return (
    <div className="nbdist-stall">
      <div className="nbdist-row nbdist-tools nbdist-stall-tools">
        <b>{words.stacks}</b>
        {stall && <span className="nbdist-quiet">{words.stacksTaken(clock(stall.taken ?? 0))}</span>}
        <span className="nbdist-space" />
        {props.report}
        {again && <Button icon="again" label={words.takeAgain} disabled={taking} onClick={again} />}
      </div>
      {props.children}
      {groups.map(group => (
        <Group key={group.ranks.join()} group={group} onCellLine={onCellLine} />
      ))}
    </div>
  );
});

/** Draw the seconds without progress. */
function StallTimer({ view, stall, viewAt }: BannerProps): ReactElement {
  const quiet = useElapsed(view, viewAt) - stall.since;
  return <span>{words.noProgress(Math.max(0, Math.round(quiet)), stall.text.en !== '')}</span>;
}

/** ranks of a group that are named */
const SHOWN = 8;

interface GroupProps {
  group: StackGroup;
  onCellLine: (line: number) => void;
}

function Group({ group, onCellLine }: GroupProps): ReactElement {
  return (
    <details className="nbdist-stack" open>
      <summary className="nbdist-row">
        <b>{words.ranks(group.ranks.length)}</b>
        {group.ranks.slice(0, SHOWN).map(rank => (
          <Badge key={rank} rank={rank} />
        ))}
        {group.ranks.length > SHOWN && <span>…</span>}
        <span className="nbdist-quiet">{localized(group.role)}</span>
      </summary>
      {group.rows.map((row, index) => (
        <Row key={index} row={row} onCellLine={onCellLine} />
      ))}
    </details>
  );
}

function Row({ row, onCellLine }: { row: StackRow; onCellLine: (line: number) => void }): ReactElement {
  // a script's lines are not in the cell
  const line = row.own ? /^cell line (\d+)$/.exec(row.place)?.[1] : undefined;
  return (
    <div className="nbdist-stack-row" data-here={row.here}>
      <span className="nbdist-cut">{row.function}</span>
      {line === undefined ? (
        <span className="nbdist-quiet nbdist-cut">
          {row.place === 'built-in' ? words.builtIn : row.place}
        </span>
      ) : (
        <button type="button" className="nbdist-link nbdist-cut" onClick={() => onCellLine(Number(line))}>
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
}

/** The state of a rank in a stalled run: the kind of its group, and the call. */
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

/** Return the words for what a rank does, in the place of its state. */
export function heldWord(rank: RankView, held: Held | undefined): string {
  if (held === undefined || rank.state !== 'running') {
    return '';
  }
  if (held.kind === 'held') {
    return words.heldUp;
  }
  return held.kind === 'waits' || held.kind === 'loads' ? words.rankState.pending : words.stalled;
}
