/** The ranks of a run: a strip of a few, a grid of many. */
import { useMemo, type ReactElement } from 'react';
import type { RunView } from '../protocol';
import type { Words } from '../words';
import type { Size } from './clocks';
import { RankGrid } from './RankGrid';
import { RankStrip, type StripProps } from './RankStrip';
import { heldRanks } from './Stall';

/** Up to here each rank has a cell and a tab. */
export const FEW = 8;
const NONE: readonly number[] = [];

interface RanksProps {
  view: RunView;
  selected: number | null;
  utilisation: ReadonlyMap<number, readonly number[]>;
  waits: ReadonlyMap<number, number>;
  size: Size;
  words: Words;
  onSelect: (rank: number | null) => void;
  onOpen: (rank: number) => void;
  /** draws a few ranks, in the place of a strip */
  few?: (props: StripProps) => ReactElement;
}

const strip = (props: StripProps): ReactElement => <RankStrip {...props} />;

export function Ranks(props: RanksProps): ReactElement {
  const { view, selected, utilisation, size, words, onOpen, few = strip } = props;
  const { ranks } = view;
  const failedFirst = view.failure?.rank ?? null;
  const held = useMemo(() => heldRanks(view), [view]);
  if (ranks.length <= FEW) {
    const { live, slow } = view;
    return few({
      ranks,
      live,
      failedFirst,
      held,
      slow,
      utilisation,
      waits: props.waits,
      size,
      words,
      onOpen,
    });
  }
  return (
    <RankGrid
      ranks={ranks}
      live={view.live}
      selected={selected}
      failedFirst={failedFirst}
      held={held}
      samples={(selected !== null && utilisation.get(selected)) || NONE}
      narrow={size === 'narrow'}
      words={words}
      onSelect={props.onSelect}
      onOpen={onOpen}
    />
  );
}
