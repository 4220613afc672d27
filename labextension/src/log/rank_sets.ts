/** Sets of ranks, each kept once: an entry of the merged log holds a number for its set. */
import { growing16 } from './growing';

export interface RankSet {
  readonly id: number;
  readonly ranks: readonly number[];
  /** "0–3", "0,2,5–7" */
  readonly label: string;
  has(rank: number): boolean;
}

export class RankSets {
  private readonly sets: RankSet[] = [];
  private readonly sizes = growing16();
  private readonly byKey = new Map<string, RankSet>();
  private readonly larger = new Map<number, RankSet>();

  /** How many ranks a set has. */
  size(id: number): number {
    return this.sizes.items[id]!;
  }

  of(id: number): RankSet {
    return this.sets[id]!;
  }

  single(rank: number): RankSet {
    return this.plus(null, rank);
  }

  /** `set` and `rank`. */
  plus(set: RankSet | null, rank: number): RankSet {
    // ranks are below 65,536
    const step = ((set?.id ?? -1) + 1) * 65536 + rank;
    let larger = this.larger.get(step);
    if (!larger) {
      const ranks = [...(set?.ranks ?? []), rank].sort((a, b) => a - b);
      larger = this.intern(ranks);
      this.larger.set(step, larger);
    }
    return larger;
  }

  private intern(ranks: readonly number[]): RankSet {
    const label = rangesOf(ranks);
    let set = this.byKey.get(label);
    if (!set) {
      const members = new Set(ranks);
      set = { id: this.sets.length, ranks, label, has: rank => members.has(rank) };
      this.sets.push(set);
      this.sizes.push(ranks.length);
      this.byKey.set(label, set);
    }
    return set;
  }
}

/** Sorted numbers as "0,2,5–7". */
export function rangesOf(numbers: readonly number[]): string {
  const ranges: string[] = [];
  for (let from = 0; from < numbers.length;) {
    let to = from;
    while (to + 1 < numbers.length && numbers[to + 1] === numbers[to]! + 1) {
      to++;
    }
    const first = numbers[from]!;
    ranges.push(to === from ? `${first}` : `${first}–${numbers[to]!}`);
    from = to + 1;
  }
  return ranges.join(',');
}
