/** Nine ranks or more: a grid by node, coloured by their use, and the detail of the one that is selected. */
import { type KeyboardEvent, memo, type ReactElement, useMemo } from 'react';

import { byNode, device, fullOf, percent, stepOf, utilisation } from '../../words/formats';
import type { RankState, RunView } from '../../protocol/run';
import { words } from '../../words/panel';
import { moved } from '../keys';
import { measureNames, type Standing, StateMark, wordOf } from './rank_parts';
import { RankTable } from './RankTable';

interface GridProps {
  view: RunView;
  standings: readonly Standing[];
  selected: number | null;
  onSelect: (rank: number) => void;
  onOpen: (rank: number) => void;
}

export function RankGrid({ view, standings, selected, onSelect, onOpen }: GridProps): ReactElement {
  const { ranks } = view;
  const nodes = useMemo(() => byNode(ranks), [ranks]);
  const full = useMemo(() => fullOf(ranks), [ranks]);
  const name = measureNames(view).utilisation;
  const byRank = new Map(standings.map(standing => [standing.rank.rank, standing]));

  const key = (event: KeyboardEvent<HTMLElement>): void => {
    const cells = [...event.currentTarget.querySelectorAll<HTMLElement>('.nbdist-rank')];
    const at = cells.indexOf(event.target as HTMLElement);
    const to = moved(event.key, at, cells.length);
    if (event.key === 'Enter') {
      onOpen(Number(cells[at]!.dataset['rank']));
    } else if (to !== null) {
      cells[to]!.focus();
      onSelect(Number(cells[to]!.dataset['rank']));
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div className="nbdist-heat">
      <div
        role="listbox"
        aria-label={words.heatOf(name, ranks.length)}
        className="nbdist-nodes"
        data-dense={ranks.length > 128}
        onKeyDown={key}
      >
        {nodes.map(({ node, ranks: members }) => (
          <div role="group" aria-label={words.node(node)} className="nbdist-node" key={node}>
            {nodes.length > 1 && (
              <span className="nbdist-node-name" aria-hidden="true">
                {words.node(node)}
              </span>
            )}
            {members.map(rank => {
              const value = utilisation(rank);
              return (
                <HeatCell
                  key={rank.rank}
                  rank={rank.rank}
                  step={stepOf(value, full)}
                  state={rank.state}
                  selected={rank.rank === selected}
                  name={[
                    words.rankNumber(rank.rank),
                    words.node(node),
                    device(rank.device),
                    wordOf(byRank.get(rank.rank)!),
                    value === null ? '' : percent(value),
                  ]
                    .filter(Boolean)
                    .join(words.comma)}
                  onSelect={onSelect}
                  onOpen={onOpen}
                />
              );
            })}
          </div>
        ))}
      </div>
      <div className="nbdist-row nbdist-quiet nbdist-heat-foot">
        <Counts standings={standings} />
        <span className="nbdist-space" />
        <span>
          {name} 0–{percent(full)}
        </span>
      </div>
      <RankTable
        view={view}
        standings={standings.filter(({ rank }) => rank.rank === selected)}
        onOpen={onOpen}
      />
    </div>
  );
}

interface HeatCellProps {
  rank: number;
  step: number | null;
  state: RankState;
  selected: boolean;
  name: string;
  onSelect: (rank: number) => void;
  onOpen: (rank: number) => void;
}

const HeatCell = memo(function HeatCell(props: HeatCellProps): ReactElement {
  const { rank, name, onSelect, onOpen } = props;
  return (
    <button
      type="button"
      role="option"
      className="nbdist-rank nbdist-heat-cell"
      data-rank={rank}
      data-step={props.step ?? 'none'}
      data-state={props.state}
      tabIndex={props.selected ? 0 : -1}
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
