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

interface RanksProps {
  view: RunView;
  /** the rank of a large run that is shown in full */
  selected: number | null;
  onSelect: (rank: number) => void;
  onOpen: (rank: number) => void;
}

export function Ranks(props: RanksProps): ReactElement {
  return props.view.ranks.length <= FEW ? <FewRanks {...props} /> : <ManyRanks {...props} />;
}

function FewRanks(props: RanksProps): ReactElement {
  return <RankTable {...props} standings={useStandings(props.view)} />;
}

const Grid = memo(RankGrid);

function ManyRanks({ view, ...choice }: RanksProps): ReactElement | null {
  const standings = useStandings(view);
  const shown = useInTurns(useMemo(() => ({ view, standings }), [view, standings]));
  return shown && <Grid {...shown} {...choice} />;
}

function useStandings(view: RunView) {
  return useMemo((): readonly Standing[] => {
    const held = heldRanks(view);
    return view.ranks.map(rank => ({
      rank,
      first: rank.rank === view.failure?.rank,
      held: held.get(rank.rank),
      slow: view.slow?.rank === rank.rank ? view.slow : null,
    }));
  }, [view]);
}
