/** Nine ranks or more: a grid by node, coloured by one measure, and the detail of the one that is selected. */
import { memo, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import {
  byNode,
  fullOf,
  fullText,
  measured,
  MEASURES,
  measureText,
  spread,
  stepOf,
  STEPS,
  type Measure,
} from '../heat';
import { device } from '../numbers';
import type { RankState, RankView } from '../protocol';
import type { Words } from '../words';
import { RankDetail } from './RankDetail';
import { measureNames, StateMark, wordOf, type Standing } from './RankStrip';
import type { Held } from './Stall';

export interface GridProps {
  ranks: readonly RankView[];
  live: boolean;
  selected: number | null;
  failedFirst: number | null;
  held: ReadonlyMap<number, Held>;
  samples: readonly number[];
  narrow: boolean;
  words: Words;
  onSelect: (rank: number | null) => void;
  onOpen: (rank: number) => void;
}

export const RankGrid = memo(function RankGrid(props: GridProps): ReactElement {
  const { ranks, selected, failedFirst, held, words, onSelect, onOpen } = props;
  const [chosen, setChosen] = useState<Measure | null>(null);
  const known = (of: Measure): boolean => ranks.some(rank => measured(rank, of) !== null);
  const measure = chosen ?? MEASURES.find(known) ?? 'utilisation';
  const nodes = useMemo(() => byNode(ranks), [ranks]);
  const full = useMemo(() => fullOf(ranks, measure), [ranks, measure]);
  const grid = useRef<HTMLDivElement>(null);
  const names = measureNames(ranks, props.live, words);
  const standings = ranks.map(rank => ({
    rank,
    first: rank.rank === failedFirst,
    held: held.get(rank.rank),
    words,
  }));
  const detail = standings.find(({ rank }) => rank.rank === selected);
  const stop = detail?.rank.rank ?? ranks[0]?.rank;

  const key = (event: KeyboardEvent): void => {
    const cells = [...(grid.current?.querySelectorAll<HTMLElement>('.nbdist-rank') ?? [])];
    const at = cells.indexOf(event.target as HTMLElement);
    const to = at < 0 ? undefined : cells[neighbour(cells, at, event.key)];
    if (event.key === 'Enter' && at >= 0) {
      onOpen(Number(cells[at]!.dataset['rank']));
    } else if (to && to !== cells[at]) {
      to.focus();
      onSelect(Number(to.dataset['rank']));
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div className="nbdist-heat" data-narrow={props.narrow} data-detail={detail !== undefined}>
      <div className="nbdist-heat-map">
        <div className="nbdist-row nbdist-heat-head">
          <span className="nbdist-segments" role="group" aria-label={words.heat}>
            {MEASURES.map(each => (
              <button
                type="button"
                key={each}
                className="nbdist-button"
                aria-pressed={each === measure}
                onClick={() => setChosen(each)}
              >
                {names[each]}
              </button>
            ))}
          </span>
          <span className="nbdist-space" />
          <span className="nbdist-scale" aria-hidden="true">
            0
            {Array.from({ length: STEPS }, (_, step) => (
              <i key={step} data-step={step} />
            ))}
            {fullText(full, measure)}
          </span>
        </div>
        <div
          role="grid"
          aria-label={words.heatOf(names[measure], ranks.length)}
          className="nbdist-nodes"
          data-dense={ranks.length > 128}
          ref={grid}
          onKeyDown={key}
        >
          {nodes.map(({ node, ranks: members }) => (
            <div role="row" className="nbdist-node" key={node}>
              {nodes.length > 1 && (
                <span role="rowheader" className="nbdist-node-name">
                  {words.node(node)}
                </span>
              )}
              <span role="presentation" className="nbdist-node-ranks">
                {members.map(rank => {
                  const value = measured(rank, measure);
                  return (
                    <HeatCell
                      key={rank.rank}
                      rank={rank.rank}
                      step={stepOf(value, full)}
                      state={rank.state}
                      selected={rank.rank === selected}
                      focusable={rank.rank === stop}
                      name={[
                        words.rankNumber(rank.rank),
                        words.node(node),
                        device(rank.device),
                        wordOf({ rank, first: rank.rank === failedFirst, held: held.get(rank.rank), words }),
                        value === null ? '' : measureText(value, measure),
                      ]
                        .filter(Boolean)
                        .join(', ')}
                      onSelect={onSelect}
                      onOpen={onOpen}
                    />
                  );
                })}
              </span>
            </div>
          ))}
        </div>
        <div className="nbdist-row nbdist-heat-foot">
          <Counts standings={standings} words={words} />
          <span className="nbdist-space" />
          <span>{spreadText(ranks, measure, words)}</span>
        </div>
      </div>
      {detail && (
        <RankDetail
          {...detail}
          names={names}
          nodes={nodes.length}
          samples={props.live ? props.samples : null}
          onClose={() => onSelect(null)}
          onOpen={onOpen}
        />
      )}
    </div>
  );
});

/** The cell that an arrow key leads to: beside it in order, or the nearest in the row above or below. */
function neighbour(cells: readonly HTMLElement[], at: number, key: string): number {
  switch (key) {
    case 'ArrowRight':
      return Math.min(at + 1, cells.length - 1);
    case 'ArrowLeft':
      return Math.max(at - 1, 0);
    case 'Home':
      return 0;
    case 'End':
      return cells.length - 1;
    case 'ArrowDown':
    case 'ArrowUp':
      return vertically(cells, at, key === 'ArrowDown' ? 1 : -1);
    default:
      return at;
  }
}

function vertically(cells: readonly HTMLElement[], at: number, way: number): number {
  const boxes = cells.map(cell => cell.getBoundingClientRect());
  const from = boxes[at]!;
  const beyond = boxes.map(box => way * (box.top - from.top)).map((far, index) => ({ far, index }));
  const next = Math.min(...beyond.filter(({ far }) => far > 1).map(({ far }) => far));
  const row = beyond.filter(({ far }) => Math.abs(far - next) < 1).map(({ index }) => index);
  const aside = (index: number): number => Math.abs(boxes[index]!.left - from.left);
  return row.length ? row.reduce((best, index) => (aside(index) < aside(best) ? index : best)) : at;
}

interface HeatCellProps {
  rank: number;
  step: number | null;
  state: RankState;
  selected: boolean;
  focusable: boolean;
  name: string;
  onSelect: (rank: number) => void;
  onOpen: (rank: number) => void;
}

const HeatCell = memo(function HeatCell(props: HeatCellProps): ReactElement {
  const { rank, name, onSelect, onOpen } = props;
  return (
    <button
      type="button"
      role="gridcell"
      className="nbdist-rank nbdist-heat-cell"
      data-rank={rank}
      data-step={props.step ?? 'none'}
      data-state={props.state}
      tabIndex={props.focusable ? 0 : -1}
      aria-selected={props.selected}
      aria-label={name}
      title={name}
      onClick={() => onSelect(rank)}
      onDoubleClick={() => onOpen(rank)}
    >
      {rank}
    </button>
  );
});

const ORDER: readonly RankState[] = ['running', 'pending', 'failed', 'lost', 'ended', 'succeeded'];
const NAMED = 3;

/** `63 running · 1 failed first: rank 12` */
function Counts({ standings, words }: { standings: readonly Standing[]; words: Words }): ReactElement {
  const groups = new Map<string, Standing[]>();
  for (const standing of standings) {
    const word = wordOf(standing);
    groups.set(word, [...(groups.get(word) ?? []), standing]);
  }
  const place = ([, [member]]: [string, Standing[]]): number => ORDER.indexOf(member!.rank.state);
  return (
    <>
      {[...groups]
        .sort((one, other) => place(one) - place(other))
        .map(([word, members]) => {
          const { state } = members[0]!.rank;
          const apart = state === 'failed' || state === 'lost' || members[0]!.held?.kind === 'held';
          const some = members.slice(0, NAMED).map(({ rank }) => rank.rank);
          return (
            <span className="nbdist-row" key={word}>
              <StateMark {...members[0]!} />
              {words.states(members.length, word) +
                (apart && members.length < standings.length
                  ? words.which(some.join(', '), members.length > NAMED)
                  : '')}
            </span>
          );
        })}
    </>
  );
}

function spreadText(ranks: readonly RankView[], measure: Measure, words: Words): string {
  const found = spread(ranks, measure);
  if (!found) {
    return '';
  }
  const middle = measureText(found.median, measure);
  return found.node === null
    ? words.median(middle)
    : words.lowest(words.node(found.node), measureText(found.lowest, measure), middle);
}
