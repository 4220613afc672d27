/** Nine ranks or more: a grid by node, coloured by one measure, and the detail of the one that is selected. */
import { type KeyboardEvent, memo, type ReactElement, useMemo, useRef, useState } from 'react';

import { plain } from '../../log/ansi';
import {
  byNode,
  device,
  fullOf,
  fullText,
  type Measure,
  measured,
  MEASURES,
  measureText,
  memory,
  percent,
  rate,
  spread,
  stepOf,
  STEPS,
  utilisation,
} from '../../model/formats';
import type { RankState, RankView } from '../../protocol/run';
import { localized } from '../../words/languages';
import { pageWords } from '../../words/panel';
import { Badge, Button, rankColour, Segments } from '../Marks';
import {
  Bar,
  measureNames,
  Memory,
  type RanksProps,
  Sparkline,
  type Standing,
  StateMark,
  useStandings,
  wordOf,
} from './rank_parts';

interface GridProps extends RanksProps {
  selected: number | null;
  onSelect: (rank: number | null) => void;
}

export function RankGrid(props: GridProps): ReactElement {
  const { view, selected, onSelect, onOpen } = props;
  const { ranks } = view;
  const words = pageWords();
  const [chosen, setChosen] = useState<Measure | null>(null);
  const known = (of: Measure): boolean => ranks.some(rank => measured(rank, of) !== null);
  const measure = chosen ?? MEASURES.find(known) ?? 'utilisation';
  const nodes = useMemo(() => byNode(ranks), [ranks]);
  const full = useMemo(() => fullOf(ranks, measure), [ranks, measure]);
  const grid = useRef<HTMLDivElement>(null);
  const names = measureNames(view);
  // of a grid the slowest is not told
  const standings = useStandings(props).map(standing => ({ ...standing, slow: null }));
  const byRank = new Map(standings.map(standing => [standing.rank.rank, standing]));
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
    <div className="nbdist-heat" data-narrow={props.size === 'narrow'} data-detail={detail !== undefined}>
      <div className="nbdist-heat-map">
        <div className="nbdist-row nbdist-heat-head">
          <Segments
            label={words.heat}
            choices={MEASURES}
            names={names}
            chosen={measure}
            onChoose={setChosen}
          />
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
                        wordOf(byRank.get(rank.rank)!),
                        value === null ? '' : measureText(value, measure),
                      ]
                        .filter(Boolean)
                        .join(words.comma)}
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
          <Counts standings={standings} />
          <span className="nbdist-space" />
          <span>{spreadText(ranks, measure)}</span>
        </div>
      </div>
      {detail && (
        <RankDetail
          {...detail}
          names={names}
          nodes={nodes.length}
          live={view.live}
          onClose={() => onSelect(null)}
          onOpen={onOpen}
        />
      )}
    </div>
  );
}

/** Return the cell that an arrow key leads to: beside it in order, or the nearest in the row above or below. */
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

function vertically(cells: readonly HTMLElement[], at: number, direction: number): number {
  const boxes = cells.map(cell => cell.getBoundingClientRect());
  const from = boxes[at]!;
  const beyond = boxes.map(box => direction * (box.top - from.top)).map((far, index) => ({ far, index }));
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

const ORDER: readonly RankState[] = ['running', 'pending', 'failed', 'lost', 'stopped', 'finished'];
const NAMED = 3;

/** Draw `63 running · 1 failed first: rank 12` */
function Counts({ standings }: { standings: readonly Standing[] }): ReactElement {
  const words = pageWords();
  const groups = new Map<string, Standing[]>();
  for (const standing of standings) {
    const word = wordOf(standing);
    groups.set(word, [...(groups.get(word) ?? []), standing]);
  }
  const place = ([, [member]]: [string, Standing[]]): number => ORDER.indexOf(member!.rank.state);
  return (
    <>
      {[...groups]
        .sort((a, b) => place(a) - place(b))
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

function spreadText(ranks: readonly RankView[], measure: Measure): string {
  const words = pageWords();
  const stats = spread(ranks, measure);
  if (!stats) {
    return '';
  }
  const middle = measureText(stats.median, measure);
  return stats.node === null
    ? words.median(middle)
    : words.lowest(words.node(stats.node), measureText(stats.lowest, measure), middle);
}

interface DetailProps extends Standing {
  names: ReturnType<typeof measureNames>;
  nodes: number;
  live: boolean;
  onClose: () => void;
  onOpen: (rank: number) => void;
}

/** Draw all measures of the selected rank. */
function RankDetail(props: DetailProps): ReactElement {
  const { rank, names, nodes, onClose, onOpen } = props;
  const words = pageWords();
  const used = memory(rank);
  const use = utilisation(rank);
  const where = [nodes > 1 && words.node(rank.node), device(rank.device)].filter(Boolean).join(' · ');
  return (
    <div
      className={`nbdist-detail ${rankColour(rank.rank)}`}
      role="group"
      aria-label={words.rankNumber(rank.rank)}
    >
      <div className="nbdist-row nbdist-heat-head">
        <Badge rank={rank.rank} />
        <b className="nbdist-cut">{where}</b>
        <span className="nbdist-space" />
        <Button icon="close" label={words.close} bare onClick={onClose} />
      </div>
      <div className="nbdist-fact">
        <span className="nbdist-quiet">{words.state}</span>
        <span className="nbdist-row">
          <StateMark {...props} />
          {wordOf(props)}
        </span>
        <span className="nbdist-cut">
          {localized(rank.exit) || (rank.pid === null ? '' : `pid ${rank.pid}`)}
        </span>
      </div>
      {rank.rate !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.rate}</span>
          <span />
          <span>{words.rate(rate(rank.rate))}</span>
        </div>
      )}
      {used && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.memory}</span>
          {used.total === null ? <span /> : <Bar fraction={used.used / used.total} />}
          <Memory rank={rank} />
        </div>
      )}
      {use !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.utilisation}</span>
          {props.live ? <Sparkline samples={props.samples} /> : <span />}
          <span>{percent(use)}</span>
        </div>
      )}
      {rank.lastLine && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{words.lastLine}</span>
          <span className="nbdist-last">{plain(rank.lastLine)}</span>
        </div>
      )}
      <Button icon="lines" label={words.toLog(rank.rank)} onClick={() => onOpen(rank.rank)} />
    </div>
  );
}
