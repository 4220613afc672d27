/** Entries of the merged log, and as rows: the texts are read from the blocks of the ranks. */
import { type Block, HIGH, type Unpacked } from './block';
import { growing16, growing32, growing64 } from './growing';
import type { RankLog } from './rank_log';
import {
  FOLD_COLUMNS,
  type LogRow,
  type LineLocation,
  PLACEHOLDER_COLUMNS,
  type RankSets,
  Watched,
} from './rows';

export const MISSING = 0x80000000;
export const SET = 0x7fffffff;

/** Entries, as columns: the rank and the address of the line whose text is shown, and the set of ranks that wrote it. */
export class Entries {
  readonly rank = growing16();
  readonly line = growing64();
  /** number of the set; the top bit says that the entry stands for missing lines */
  readonly set = growing32();
  firstError = -1;

  get length(): number {
    return this.line.length;
  }

  push(rank: number, line: number, set: number, error: boolean): number {
    if (error && this.firstError < 0) {
      this.firstError = this.length;
    }
    this.rank.push(rank);
    this.line.push(line);
    this.set.push(set);
    return this.length - 1;
  }

  /** Put `other` in the place of the entries from `at` on. */
  replaceFrom(at: number, other: Entries): void {
    const removed = this.length - at;
    this.rank.splice(at, removed, other.rank.items, other.length);
    this.line.splice(at, removed, other.line.items, other.length);
    this.set.splice(at, removed, other.set.items, other.length);
    if (this.firstError < 0 || this.firstError >= at) {
      this.firstError = other.firstError < 0 ? -1 : at + other.firstError;
    }
  }

  dropFront(count: number): void {
    this.rank.splice(0, count, []);
    this.line.splice(0, count, []);
    this.set.splice(0, count, []);
    this.firstError = Math.max(-1, this.firstError - count);
  }
}

export class EntryRows extends Watched {
  /** bytes of the logs that were dropped; a row above the entries tells of them */
  protected dropped = 0;

  protected readonly entries = new Entries();

  constructor(
    protected readonly logs: ReadonlyMap<number, RankLog>,
    protected readonly sets: RankSets,
    protected readonly unpacked: Unpacked,
  ) {
    super();
  }

  get above(): number {
    return this.dropped ? 1 : 0;
  }

  get count(): number {
    return this.above + this.entries.length;
  }

  row(at: number): LogRow {
    const entry = at - this.above;
    if (entry < 0) {
      return { kind: 'dropped', rank: -1, line: 0, ranks: null, time: NaN, text: '', amount: this.dropped };
    }
    const { rank, line, set } = this.entries;
    const log = this.logs.get(rank.items[entry]!)!;
    const number = line.items[entry]!;
    const bits = set.items[entry]!;
    const block = log.blockOf(number);
    if (!block || number < block.first) {
      return { kind: 'dropped', rank: log.rank, line: number, ranks: null, time: NaN, text: '', amount: 1 };
    }
    if (bits & MISSING && !block.gap) {
      // lines have come in between and are not in their places yet
      return { ...log.placeholder(block), kind: 'missing', amount: log.gapBefore(number) };
    }
    if (bits & MISSING) {
      return log.placeholder(block);
    }
    const index = block.indexOf(number);
    return {
      kind: 'line',
      rank: log.rank,
      line: number,
      ranks: this.sets.of(bits),
      time: block.time(index),
      text: this.unpacked.lines(block)[index]!,
      amount: 0,
    };
  }

  locate(at: number): LineLocation | null {
    const entry = at - this.above;
    const { rank, line, set } = this.entries;
    if (entry < 0 || set.items[entry]! & ~SET) {
      return null;
    }
    const number = line.items[entry]!;
    const block = this.logs.get(rank.items[entry]!)!.blockOf(number);
    return block && number >= block.first ? { block, index: block.indexOf(number) } : null;
  }

  columns(from: number, to: number, into: Uint16Array): void {
    const rank = this.entries.rank.items;
    const line = this.entries.line.items;
    const set = this.entries.set.items;
    // a rank's entries follow each other in its blocks: a block is looked up only at the end of another
    const blocks: (Block | undefined)[] = [];
    const indices: number[] = [];
    for (let at = from; at < to; at++) {
      const entry = at - this.above;
      if (entry < 0 || set[entry]! & ~SET) {
        into[at - from] = PLACEHOLDER_COLUMNS;
        continue;
      }
      const number = line[entry]!;
      const lead = rank[entry]!;
      let block = blocks[lead];
      if (!block || number >= block.end || number < block.first) {
        block = blocks[lead] = this.logs.get(lead)!.blockOf(number);
      }
      let index = (indices[lead] ?? -1) + 1;
      if (!block || index >= block.count || block.lineAt(index) !== number) {
        index = block?.indexOf(number) ?? 0;
      }
      indices[lead] = index;
      const columns = block && number >= block.first ? block.columns(index) : 0;
      const folded = columns && columns < HIGH && this.sets.size(set[entry]!) > 1;
      into[at - from] = folded ? Math.min(HIGH - 1, columns + FOLD_COLUMNS) : columns;
    }
  }

  find(rank: number, line: number, from: number): number {
    const { entries } = this;
    for (let entry = Math.max(0, from - this.above); entry < entries.length; entry++) {
      if (entries.rank.items[entry] === rank && entries.line.items[entry]! >= line) {
        return this.above + entry;
      }
    }
    return Math.max(0, this.count - 1);
  }

  get high(): number {
    let high = 0;
    for (const log of this.logs.values()) {
      high += log.high;
    }
    return high;
  }

  get firstError(): number {
    const { firstError } = this.entries;
    return firstError < 0 ? -1 : this.above + firstError;
  }

  /** Return the first entry that begins an error; -1 for none. */
  protected lookForError(): number {
    for (let at = this.above; at < this.count; at++) {
      const place = this.locate(at);
      if (place?.block.isError(place.index)) {
        return at - this.above;
      }
    }
    return -1;
  }
}
