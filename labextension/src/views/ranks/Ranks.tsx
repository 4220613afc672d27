/** The ranks of a run: of up to eight a table, of more a grid. */
import { memo, type ReactElement, useMemo } from 'react';

import type { RunView } from '../../protocol/run';
import { useInTurns } from '../hooks';
import { heldRanks } from '../Stall';
import type { Standing } from './rank_parts';
import { RankGrid } from './RankGrid';
import { RankTable } from './RankTable';

/** Up to here each rank has a row and a tab. */
export const FEW = 8;

const NONE: readonly number[] = [];

interface RanksProps {
  view: RunView;
  /** the last samples of each rank, in percent */
  utilisation: ReadonlyMap<number, readonly number[]>;
  /** the rank of a large run that is shown in full */
  selected: number | null;
  onSelect: (rank: number) => void;
  onOpen: (rank: number) => void;
}

export function Ranks(props: RanksProps): ReactElement {
  return props.view.ranks.length <= FEW ? <FewRanks {...props} /> : <ManyRanks {...props} />;
}

function FewRanks(props: RanksProps): ReactElement {
  return <RankTable {...props} standings={useStandings(props)} />;
}

const Grid = memo(RankGrid);

function ManyRanks({ onSelect, onOpen, selected, ...changing }: RanksProps): ReactElement | null {
  const { view } = changing;
  const standings = useStandings(changing);
  const shown = useInTurns(useMemo(() => ({ view, standings }), [view, standings]));
  return shown && <Grid {...shown} selected={selected} onSelect={onSelect} onOpen={onOpen} />;
}

function useStandings({ view, utilisation }: Omit<RanksProps, 'selected' | 'onSelect' | 'onOpen'>) {
  return useMemo((): readonly Standing[] => {
    const held = heldRanks(view);
    return view.ranks.map(rank => ({
      rank,
      first: rank.rank === view.failure?.rank,
      held: held.get(rank.rank),
      slow: view.slow?.rank === rank.rank ? view.slow : null,
      samples: utilisation.get(rank.rank) ?? NONE,
    }));
  }, [view, utilisation]);
}
