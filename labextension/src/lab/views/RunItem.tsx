/** A run in the sidebar: two lines, and how far it is. And a sweep, which stands for its runs. */
import { memo, type MouseEvent, type ReactElement } from 'react';

import { clock, doneText, figure } from '../../words/formats';
import { Mark } from '../../views/Marks';
import { localized } from '../../words/languages';
import { words as panelWords } from '../../words/panel';
import type { RunRow } from '../services/client';
import { age, type ShownName, standing, type SweepRows } from '../services/listing';
import { words } from '../../words/lab';

interface ItemProps {
  id: string;
  top: number;
  height: number;
  position: number;
  count: number;
  current: boolean;
  checked: boolean;
  /** Unix seconds; of a run that has ended only the minute matters */
  now: number;
}

interface RunItemProps extends ItemProps {
  row: RunRow;
  name: ShownName;
  ofSweep: boolean;
  best: boolean;
  onClick: (row: RunRow, event: MouseEvent) => void;
  onCheck: (row: RunRow, event: MouseEvent) => void;
}

export const RunItem = memo(function RunItem(props: RunItemProps): ReactElement {
  const { row, now } = props;
  const stalled = row.stalled && row.live;
  const word = stalled ? panelWords.stalled : row.idle ? panelWords.idle : panelWords.run[row.state];
  const ended = row.ended ?? now;
  return (
    <div
      id={props.id}
      role="treeitem"
      aria-level={props.ofSweep ? 2 : 1}
      className="nbdist-run"
      aria-selected={props.current}
      aria-checked={props.checked}
      aria-posinset={props.position + 1}
      aria-setsize={props.count}
      data-run={row.runId}
      data-live={row.live}
      data-state={row.state}
      data-of-sweep={props.ofSweep}
      data-diverged={row.spark?.diverged}
      style={{ top: props.top, height: props.height }}
      title={titleOf(row, now)}
      aria-description={row.note || undefined}
      onClick={event => props.onClick(row, event)}
    >
      <div className="nbdist-row">
        <Mark state={stalled ? 'held' : row.idle ? 'pending' : row.state} />
        <Name {...props.name} />
        {props.best && (
          <span className="nbdist-best" role="img" aria-label={panelWords.bestRun} title={panelWords.bestRun}>
            ★
          </span>
        )}
        {row.tags.map(tag => (
          <span key={tag} className="nbdist-cut nbdist-run-tag">
            {tag}
          </span>
        ))}
        <span className="nbdist-space" />
        <span className="nbdist-small">
          {row.started === null && row.live ? '–' : clock(ended - (row.started ?? row.created))}
        </span>
      </div>
      <div className="nbdist-row nbdist-fine">
        <Check onCheck={event => props.onCheck(row, event)} />
        <span className="nbdist-cut">{about(row, word)}</span>
        <span className="nbdist-space" />
        {row.spark && <Curve values={row.spark.values} name={row.spark.tag} />}
        <span className="nbdist-run-age">{row.live ? doneText(row.progress) : age(now - ended)}</span>
      </div>
      {row.live && row.progress && (
        <div className="nbdist-bar nbdist-run-progress" aria-hidden="true">
          <i style={{ width: `${100 * row.progress.fraction}%` }} />
        </div>
      )}
    </div>
  );
});

interface SweepItemProps extends ItemProps {
  sweep: SweepRows;
  open: boolean;
  onClick: (sweep: SweepRows) => void;
  onCheck: (sweep: SweepRows) => void;
}

export function SweepItem(props: SweepItemProps): ReactElement {
  const { sweep, now } = props;
  const { points, ended, failed, state, best } = standing(sweep);
  const first = Math.min(...sweep.rows.map(row => row.started ?? row.created));
  const last = Math.max(...sweep.rows.map(row => row.ended ?? now));
  const about = [
    sweep.partial ? panelWords.sweepPoints(sweep.rows.length, points) : `${ended}/${points}`,
    !sweep.partial && best && words.sweepBest(best.spark!.tag, figure(best.spark!.values.at(-1)!)),
    !sweep.partial && best?.sweep!.values,
    failed > 0 && panelWords.sweepFailed(failed),
  ];
  const text = about.filter(Boolean).join(' · ');
  return (
    <div
      id={props.id}
      role="treeitem"
      aria-level={1}
      aria-expanded={props.open}
      className="nbdist-run"
      aria-selected={props.current}
      aria-checked={props.checked}
      aria-posinset={props.position + 1}
      aria-setsize={props.count}
      data-sweep={sweep.sweepId}
      data-live={state === 'running'}
      data-state={state}
      style={{ top: props.top, height: props.height }}
      title={`${sweep.sweepId}\n${text}`}
      onClick={() => props.onClick(sweep)}
    >
      <div className="nbdist-row">
        <Mark state={state} />
        <Name text={sweep.label} from={0} />
        <span className="nbdist-fine" aria-hidden="true">
          {props.open ? '▾' : '▸'}
        </span>
        <span className="nbdist-space" />
        <span className="nbdist-small">{clock((state === 'running' ? now : last) - first)}</span>
      </div>
      <div className="nbdist-row nbdist-fine">
        <Check onCheck={() => props.onCheck(sweep)} />
        <span className="nbdist-cut">{text}</span>
        <span className="nbdist-space" />
        <span className="nbdist-run-age">{state === 'running' ? '' : age(now - last)}</span>
      </div>
      {state === 'running' && (
        <div className="nbdist-bar nbdist-run-progress" aria-hidden="true">
          <i style={{ width: `${(100 * ended) / points}%` }} />
        </div>
      )}
    </div>
  );
}

function Check({ onCheck }: { onCheck: (event: MouseEvent) => void }): ReactElement {
  return (
    <span
      className="nbdist-check"
      title={words.check}
      // the key for it is the space bar; a control of its own may not stand in an item of a tree
      aria-hidden="true"
      onClick={event => {
        event.stopPropagation();
        onCheck(event);
      }}
    >
      <i />
    </span>
  );
}

/** Draw the name of a run; where it is too long, the part shared with other runs is cut first. */
function Name({ text, from }: ShownName): ReactElement {
  const shared = from > 2 ? from : 0;
  return (
    <span className="nbdist-run-name">
      {shared > 0 && <span className="nbdist-run-shared">{text.slice(0, shared)}</span>}
      <span className="nbdist-cut" style={{ minWidth: `${Math.min(6, text.length - shared)}ch` }}>
        {text.slice(shared)}
      </span>
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
    return [row.sweep?.values, why, headline, panelWords.ranks(row.worldSize)].filter(Boolean).join(' · ');
  }
  const how = row.live ? headline || place : short(headline) || reason || place;
  // its mark says as well that a run has finished: the end of the line may be cut
  const first = row.state === 'finished' ? [how, word] : [word, how];
  const diverged = row.sweep && row.spark?.diverged && panelWords.diverged;
  return [row.sweep?.values, diverged, ...first, panelWords.ranks(row.worldSize)].filter(Boolean).join(' · ');
}

/** Return a shorter headline: `rank 1, ValueError at line 4`. */
function short(headline: string): string {
  return headline
    .replace(/^(rank \d+) failed first:/, '$1,')
    .replace(/^(进程 \d+) 最先失败：/, '$1，')
    .replace(/ of the cell$/, '');
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

const CURVE_WIDTH_PX = 48;
const CURVE_PX = 14;

/** Draw the main metric, from its lowest to its highest. */
const Curve = memo(function Curve({
  values,
  name,
}: {
  values: readonly number[];
  name: string;
}): ReactElement | null {
  const finite = values.filter(Number.isFinite);
  if (finite.length < 2) {
    return null;
  }
  const low = Math.min(...finite);
  const range = Math.max(...finite) - low || 1;
  const points = finite.map((value, at) => {
    const x = (at / (finite.length - 1)) * CURVE_WIDTH_PX;
    return `${x.toFixed(1)},${(CURVE_PX - 1.5 - ((value - low) / range) * (CURVE_PX - 3)).toFixed(1)}`;
  });
  return (
    <svg className="nbdist-run-curve" viewBox={`0 0 ${CURVE_WIDTH_PX} ${CURVE_PX}`} aria-hidden="true">
      <title>{name}</title>
      <polyline points={points.join(' ')} />
    </svg>
  );
});
