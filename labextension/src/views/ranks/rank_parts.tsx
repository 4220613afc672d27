/** The parts of a table and a grid of ranks: the state of a rank, and small drawings of its use. */
import type { ReactElement } from 'react';

import { bytes, bytesOf, memory } from '../../words/formats';
import type { RankView, RunView, SlowView } from '../../protocol/run';
import { words } from '../../words/panel';
import { Mark } from '../Marks';
import { type Held, heldWord } from '../Stall';

/** The state of a rank. */
export interface Standing {
  rank: RankView;
  /** true when it failed before all others */
  first: boolean;
  held: Held | undefined;
  slow: SlowView | null;
}

/** Return the word for a rank: its part in a stall, slowest, or its state. */
export function wordOf({ rank, first, held, slow }: Standing): string {
  const state = first && rank.state === 'failed' ? words.failedFirst : words.rankState[rank.state];
  return heldWord(rank, held) || (slow && rank.state === 'running' ? words.slowest : state);
}

export function StateMark({ rank, held, slow }: Standing): ReactElement {
  if (rank.state !== 'running' || (held === undefined && !slow)) {
    return <Mark state={rank.state} />;
  }
  const waits = held?.kind === 'waits' || held?.kind === 'loads';
  return <Mark state={held === undefined ? 'slow' : waits ? 'waits' : 'held'} />;
}

/** Return the names of the measures; of an ended run they are peaks and means. */
export function measureNames({ ranks, live }: RunView): Record<'utilisation' | 'memory' | 'rate', string> {
  const { utilisation, memory, gpuMemory, stepRate } = live ? words : words.onTheWhole;
  const onGpu = ranks.some(rank => rank.gpuMemory !== null);
  return { utilisation, memory: onGpu ? gpuMemory : memory, rate: stepRate };
}

/** Draw the memory of a rank. */
export function Memory({ rank }: { rank: RankView }): ReactElement | null {
  const amount = memory(rank);
  if (amount === null) {
    return null;
  }
  const { used, total } = amount;
  return total ? (
    <Meter text={bytesOf(used, total).join('/')} share={used / total} />
  ) : (
    <Meter text={bytes(used)} share={null} />
  );
}

/** Draw a bar and its figures, `11.2/80 GB` or `87 %`; `share` (0 to 1) is null for none. */
export function Meter({ text, share }: { text: string; share: number | null }): ReactElement {
  const [used, total] = text.split('/');
  return (
    <span className="nbdist-row nbdist-meter">
      {share !== null && <Bar fraction={share} />}
      <span>
        {used}
        {total && <span className="nbdist-quiet">/{total}</span>}
      </span>
    </span>
  );
}

export function Bar({ fraction }: { fraction: number }): ReactElement {
  return (
    <span className="nbdist-bar" aria-hidden="true">
      <i style={{ width: `${Math.min(100, 100 * fraction)}%` }} />
    </span>
  );
}
