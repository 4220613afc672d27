/** A run in the sidebar: two lines, and how far it is. And a sweep, which stands for its runs. */
import { type HTMLAttributes, memo, type MouseEvent, type ReactElement } from 'react';

import { clock, dotted, doneText, figure } from '../../words/formats';
import { BestRun, Mark, type MarkState } from '../../views/Marks';
import { Bar } from '../../views/ranks/rank_parts';
import { localized } from '../../words/languages';
import { words as panelWords } from '../../words/panel';
import type { RunRow } from '../services/client';
import { age, standing, type SweepRows } from '../services/listing';
import { words } from '../../words/lab';

/** The place of an entry in the tree. */
interface Place {
  id: string;
  position: number;
  count: number;
  current: boolean;
  checked: boolean;
}

interface EntryProps extends Place {
  /** Unix seconds; of a run that has ended only the minute matters */
  now: number;
}

interface RunItemProps extends EntryProps {
  row: RunRow;
  ofSweep: boolean;
  best: boolean;
  onClick: (row: RunRow, event: MouseEvent) => void;
  onCheck: (row: RunRow) => void;
}

export const RunItem = memo(function RunItem(props: RunItemProps): ReactElement {
  const { row, now, ofSweep, best, onClick, onCheck, ...place } = props;
  const stalled = row.stalled && row.live;
  const word = stalled ? panelWords.stalled : row.idle ? panelWords.idle : panelWords.run[row.state];
  const ended = row.ended ?? now;
  return (
    <TwoLines
      {...place}
      aria-level={ofSweep ? 2 : 1}
      data-run={row.runId}
      data-live={row.live}
      data-state={row.state}
      data-of-sweep={ofSweep}
      title={titleOf(row, now)}
      aria-description={row.note || undefined}
      onClick={event => onClick(row, event)}
      onCheck={() => onCheck(row)}
      mark={stalled ? 'held' : row.idle ? 'pending' : row.state}
      label={row.label}
      time={row.started === null && row.live ? '–' : clock(ended - (row.started ?? row.created))}
      text={about(row, word)}
      age={row.live ? doneText(row.progress) : age(now - ended)}
      fraction={row.live ? (row.progress?.fraction ?? null) : null}
    >
      {best && <BestRun />}
      {row.tags.map(tag => (
        <span key={tag} className="nbdist-cut nbdist-run-tag">
          {tag}
        </span>
      ))}
    </TwoLines>
  );
});

interface SweepItemProps extends EntryProps {
  sweep: SweepRows;
  open: boolean;
  onClick: (sweep: SweepRows) => void;
  onCheck: (sweep: SweepRows) => void;
}

export function SweepItem({ sweep, open, now, onClick, onCheck, ...place }: SweepItemProps): ReactElement {
  const { points, ended, failed, state, best } = standing(sweep);
  const first = Math.min(...sweep.rows.map(row => row.started ?? row.created));
  const last = Math.max(...sweep.rows.map(row => row.ended ?? now));
  const running = state === 'running';
  const text = dotted(
    sweep.partial ? panelWords.sweepPoints(sweep.rows.length, points) : `${ended}/${points}`,
    !sweep.partial && best && words.sweepBest(best.spark!.tag, figure(best.spark!.values.at(-1)!)),
    !sweep.partial && best?.sweep!.values,
    failed > 0 && panelWords.sweepFailed(failed),
  );
  return (
    <TwoLines
      {...place}
      aria-level={1}
      aria-expanded={open}
      data-sweep={sweep.sweepId}
      data-live={running}
      data-state={state}
      title={`${sweep.sweepId}\n${text}`}
      onClick={() => onClick(sweep)}
      onCheck={() => onCheck(sweep)}
      mark={state}
      label={sweep.label}
      time={clock((running ? now : last) - first)}
      text={text}
      age={running ? '' : age(now - last)}
      fraction={running ? ended / points : null}
    >
      <span className="nbdist-fine" aria-hidden="true">
        {open ? '▾' : '▸'}
      </span>
    </TwoLines>
  );
}

interface LinesProps extends Place, Omit<HTMLAttributes<HTMLDivElement>, 'id'> {
  mark: MarkState;
  label: string;
  time: string;
  text: string;
  age: string;
  /** length of the bar, 0 to 1; null for none */
  fraction: number | null;
  onCheck: () => void;
}

function TwoLines(props: LinesProps): ReactElement {
  const { position, count, current, checked, children, onCheck, ...given } = props;
  const { mark, label, time, text, age, fraction, ...attributes } = given;
  return (
    <div
      {...attributes}
      role="treeitem"
      className="nbdist-run"
      aria-selected={current}
      aria-checked={checked}
      aria-posinset={position + 1}
      aria-setsize={count}
    >
      <div className="nbdist-row">
        <Mark state={mark} />
        <Name label={label} />
        {children}
        <span className="nbdist-space" />
        <span className="nbdist-small">{time}</span>
      </div>
      <div className="nbdist-row nbdist-fine">
        <Check onCheck={onCheck} />
        <span className="nbdist-cut">{text}</span>
        <span className="nbdist-space" />
        <span className="nbdist-run-age">{age}</span>
      </div>
      {fraction !== null && <Bar fraction={fraction} />}
    </div>
  );
}

function Check({ onCheck }: { onCheck: () => void }): ReactElement {
  return (
    <span
      className="nbdist-check"
      title={words.check}
      // the key for it is the space bar; a control of its own may not stand in an item of a tree
      aria-hidden="true"
      onClick={event => {
        event.stopPropagation();
        onCheck();
      }}
    >
      <i />
    </span>
  );
}

/** letters of a name that are always seen: runs of one name differ at its end */
const SEEN = 10;

function Name({ label }: { label: string }): ReactElement {
  const end = Math.max(0, label.length - SEEN);
  return (
    <span className="nbdist-run-name">
      {end > 0 && <span className="nbdist-run-shared">{label.slice(0, end)}</span>}
      <span>{label.slice(end)}</span>
    </span>
  );
}

function about(row: RunRow, word: string): string {
  const place = row.notebook.split('/').at(-1) ?? '';
  const headline = localized(row.headline);
  const reason = localized(row.reason);
  if (row.state === 'stopped' && reason) {
    // its mark says that it was stopped
    const why = reason.charAt(0).toUpperCase() + reason.slice(1);
    return dotted(row.sweep?.values, why, headline, panelWords.ranks(row.worldSize));
  }
  const how = headline || (row.live ? '' : reason) || place;
  // its mark says as well that a run has finished: the end of the line may be cut
  const first = row.state === 'finished' ? [how, word] : [word, how];
  const diverged = row.sweep && row.spark?.diverged && panelWords.diverged;
  return dotted(row.sweep?.values, diverged, ...first, panelWords.ranks(row.worldSize));
}

function titleOf(row: RunRow, now: number): string {
  const started = `${new Date(row.created * 1000).toLocaleString()} (${words.ago(age(now - row.created))})`;
  return [
    row.note,
    row.tags.join(', '),
    row.runId,
    localized(row.headline),
    localized(row.reason),
    row.notebook,
    row.devices.join(', '),
    started,
  ]
    .filter(Boolean)
    .join('\n');
}
