/** The ranks of a run: a table of a few, the panel's grid of many. */
import { useMemo, useState, type ReactElement } from 'react';

import type { RunView } from '../../protocol';
import type { Size } from '../../views/clocks';
import { RankGrid } from '../../views/RankGrid';
import { heldRanks } from '../../views/Stall';
import type { Words } from '../../words';
import type { LabWords } from '../words';
import { RankTable } from './RankTable';

/** Up to here each rank has a row of the table. */
const ROWS = 16;
const NONE: readonly number[] = [];

interface RanksProps {
  view: RunView;
  utilisation: ReadonlyMap<number, readonly number[]>;
  waits: ReadonlyMap<number, number>;
  size: Size;
  words: LabWords;
  panelWords: Words;
  onOpen: (rank: number) => void;
}

export function DashboardRanks(props: RanksProps): ReactElement {
  const { view, utilisation, waits, size, words, panelWords, onOpen } = props;
  const [picked, setPicked] = useState<number | null>(null);
  const held = useMemo(() => heldRanks(view), [view]);
  const { ranks } = view;
  const failed = view.failure?.rank ?? null;
  if (ranks.length <= ROWS) {
    return (
      <RankTable
        ranks={ranks}
        slow={view.slow}
        held={held}
        failedFirst={failed}
        utilisation={utilisation}
        waits={waits}
        narrow={size === 'narrow' || size === 'medium'}
        words={words}
        panelWords={panelWords}
        onOpen={onOpen}
      />
    );
  }
  const selected = picked ?? failed ?? ranks[0]!.rank;
  return (
    <div className="nbdist-dash-grid">
      <RankGrid
        ranks={ranks}
        selected={selected}
        failedFirst={failed}
        samples={utilisation.get(selected) ?? NONE}
        narrow={size === 'narrow'}
        words={panelWords}
        onSelect={setPicked}
        onOpen={onOpen}
      />
    </div>
  );
}
