/** A run in the sidebar: two lines, and how far it is. */
import { memo, type MouseEvent, type ReactElement } from 'react';

import { clock, doneText, percent } from '../../numbers';
import { Mark } from '../../views/Marks';
import { pageWords, told } from '../../words';
import type { RunRow } from '../client';
import { age, type ShownName } from '../listing';
import { labWords } from '../words';

interface RunItemProps {
  id: string;
  row: RunRow;
  name: ShownName;
  top: number;
  height: number;
  position: number;
  count: number;
  current: boolean;
  checked: boolean;
  /** Unix seconds; of a run that has ended only the minute matters */
  now: number;
  onClick: (row: RunRow, event: MouseEvent) => void;
  onCheck: (row: RunRow, event: MouseEvent) => void;
}

export const RunItem = memo(function RunItem(props: RunItemProps): ReactElement {
  const { row, now } = props;
  const words = labWords();
  const word = row.stalled && row.live ? words.stalled : pageWords().run[row.state];
  const ended = row.ended ?? now;
  return (
    <div
      id={props.id}
      role="option"
      className="nbdist-run"
      aria-selected={props.current}
      aria-checked={props.checked}
      aria-posinset={props.position + 1}
      aria-setsize={props.count}
      data-run={row.runId}
      data-live={row.live}
      data-state={row.state}
      style={{ top: props.top, height: props.height }}
      title={titleOf(row, now)}
      onClick={event => props.onClick(row, event)}
    >
      <div className="nbdist-run-line">
        <Mark state={row.stalled && row.live ? 'held' : row.state} />
        <Name {...props.name} />
        <span className="nbdist-space" />
        <span className="nbdist-run-time">
          {row.started === null && row.live ? '–' : clock(ended - (row.started ?? row.created))}
        </span>
      </div>
      <div className="nbdist-run-line nbdist-run-more">
        <span
          className="nbdist-check"
          title={words.check}
          // the key for it is the space bar; a control of its own may not stand in an option
          aria-hidden="true"
          onClick={event => {
            event.stopPropagation();
            props.onCheck(row, event);
          }}
        >
          <i />
        </span>
        <span className="nbdist-cut">{about(row, word)}</span>
        <span className="nbdist-space" />
        {row.spark && <Curve values={row.spark.values} name={row.spark.tag} />}
        <span className="nbdist-run-age">{row.live ? doneText(row.progress) : age(now - ended)}</span>
      </div>
      {row.live && row.progress && (
        <div className="nbdist-run-progress" aria-hidden="true">
          <i style={{ width: percent(100 * row.progress.fraction).replace(' ', '') }} />
        </div>
      )}
    </div>
  );
});

/** Where it is too long, what other runs have in their names, too, gives way to what they have not. */
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
  const headline = told(row.headline);
  const how = row.live ? headline || place : short(headline) || told(row.reason) || place;
  // its mark says as well that a run has finished: the end of the line may be cut
  const first = row.state === 'succeeded' ? [how, word] : [word, how];
  return [...first, pageWords().ranks(row.worldSize)].filter(Boolean).join(' · ');
}

/** `rank 1 failed first: ValueError at line 4 of the cell`, or in Chinese, in a narrow place. */
function short(headline: string): string {
  return headline
    .replace(/^(rank \d+) failed first:/, '$1,')
    .replace(/^(进程 \d+) 最先失败：/, '$1，')
    .replace(/ of the cell$/, '');
}

function titleOf(row: RunRow, now: number): string {
  const started = `${new Date(row.created * 1000).toLocaleString()} (${labWords().ago(age(now - row.created))})`;
  return [row.runId, told(row.headline), told(row.reason), row.notebook, row.devices.join(', '), started]
    .filter(Boolean)
    .join('\n');
}

const WIDTH = 48;
const HEIGHT = 14;

/** The main metric, from its lowest to its highest. */
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
    const x = (at / (finite.length - 1)) * WIDTH;
    return `${x.toFixed(1)},${(HEIGHT - 1.5 - ((value - low) / range) * (HEIGHT - 3)).toFixed(1)}`;
  });
  return (
    <svg className="nbdist-run-curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <title>{name}</title>
      <polyline points={points.join(' ')} />
    </svg>
  );
});
