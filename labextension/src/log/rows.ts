/** The rows of a pane, made on request, and the sets of ranks that wrote them. */
import type { Block } from './block';
import { Emitter } from './emitter';
import { growing16, growing32 } from './growing';

/** `amount` is in bytes of the log. `missing`: they have not come; 0 when that is not known. `skipped`: they were
 * passed over. `dropped`: they had to go again to bound the page's memory. */
export interface LogRow {
  readonly kind: 'line' | 'missing' | 'skipped' | 'dropped';
  readonly rank: number;
  /** address of the line, or of the line after the placeholder */
  readonly line: number;
  readonly ranks: RankSet | null;
  readonly time: number;
  readonly text: string;
  readonly amount: number;
}

/** The place of a row's line in a block. */
export interface LineLocation {
  readonly block: Block;
  readonly index: number;
}

/** At `at`, `removed` rows have gone and `added` have come (rows that changed count as both). */
export type RowsListener = (at: number, removed: number, added: number) => void;

export interface LogRows {
  readonly count: number;
  /** lines of ranks that the rows show, and how many of them share a row of another */
  readonly lines: number;
  readonly folded: number;
  /** the row where the first error begins, -1 for none */
  readonly firstError: number;
  /** least number of rows higher than a line of text; 0 for none */
  readonly high: number;
  row(at: number): LogRow;
  /** The place of a row's line; null for a placeholder. */
  locate(at: number): LineLocation | null;
  /** Columns that the texts of rows `from` to `to` take (or `HIGH`, and of how many lines), into `into` from its position 0 on. */
  columns(from: number, to: number, into: Uint16Array): void;
  /** The row of a rank's line, or of the next line there is; the search begins at `from`. */
  find(rank: number, line: number, from: number): number;
  subscribe(listener: RowsListener): () => void;
}

/** columns of rows that stand for missing lines; their words differ by language */
export const PLACEHOLDER_COLUMNS = 64;
/** columns that "×16" takes behind a folded line */
export const FOLD_COLUMNS = 6;

/** Rows that are watched. */
export const Watched = Emitter<Parameters<RowsListener>>;

/** A row that is kept track of while rows come and go. */
export class RowMark {
  constructor(
    public row: number,
    private readonly rank: number,
    private readonly line: number,
  ) {}

  static at(rows: LogRows, at: number): RowMark {
    const { rank, line } = rows.row(at);
    return new RowMark(at, rank, line);
  }

  changed(rows: LogRows, at: number, removed: number, added: number): void {
    if (this.row >= at + removed) {
      this.row += added - removed;
    } else if (this.row >= at) {
      this.row = rows.find(this.rank, this.line, at);
    }
  }
}

interface RankSet {
  readonly ranks: readonly number[];
  /** "0–3", "0,2,5–7" */
  readonly label: string;
}

/** Ids below this are sets of one rank, that with this number; others number places in the table of bits. */
const SINGLES = 65_536;
/** sets that are kept as drawn */
const DRAWN = 1024;

/** The sets of ranks that wrote lines: bits, a place for each shared line, which grow as ranks join. Ranks write equal
 * lines in any order: an object for each step on the way would fill the page. */
export class RankSets {
  private bits = growing32();
  /** words of 32 bits in a place */
  private words = 1;
  private readonly sizes = growing16();
  private readonly free: number[] = [];
  private readonly drawn = new Map<string, RankSet>();

  /** Return the number of ranks in a set. */
  size(id: number): number {
    return id < SINGLES ? 1 : this.sizes.items[id - SINGLES]!;
  }

  /** Return the set as it is now. */
  of(id: number): RankSet {
    const ranks = this.ranks(id);
    const key = ranks.join();
    let set = this.drawn.get(key);
    if (!set) {
      set = { ranks, label: rangesOf(ranks) };
      if (this.drawn.size >= DRAWN) {
        this.drawn.clear();
      }
      this.drawn.set(key, set);
    }
    return set;
  }

  /** Return the ranks of a set, in order. */
  ranks(id: number): readonly number[] {
    if (id < SINGLES) {
      return [id];
    }
    const ranks: number[] = [];
    const from = (id - SINGLES) * this.words;
    for (let word = 0; word < this.words; word++) {
      for (let left = this.bits.items[from + word]!; left; left &= left - 1) {
        ranks.push(32 * word + 31 - Math.clz32(left & -left));
      }
    }
    return ranks;
  }

  /** Add a rank to the set of a line; return the set's id from now on. */
  plus(id: number, rank: number): number {
    const place = id < SINGLES ? this.place(id) : id - SINGLES;
    this.add(place, rank);
    return SINGLES + place;
  }

  /** Forget the set of a line that is gone. */
  drop(id: number): void {
    if (id >= SINGLES) {
      const place = id - SINGLES;
      this.bits.items.fill(0, place * this.words, (place + 1) * this.words);
      this.sizes.items[place] = 0;
      this.free.push(place);
    }
  }

  /** Return a place for a set that has one rank so far. */
  private place(rank: number): number {
    let place = this.free.pop();
    if (place === undefined) {
      place = this.sizes.length;
      this.sizes.push(0);
      for (let word = 0; word < this.words; word++) {
        this.bits.push(0);
      }
    }
    this.add(place, rank);
    return place;
  }

  private add(place: number, rank: number): void {
    const word = rank >>> 5;
    if (word >= this.words) {
      this.widen(word + 1);
    }
    const at = place * this.words + word;
    const before = this.bits.items[at]!;
    const after = (before | (1 << (rank & 31))) >>> 0;
    if (after !== before) {
      this.bits.items[at] = after;
      this.sizes.items[place]! += 1;
    }
  }

  private widen(words: number): void {
    const before = this.bits;
    this.bits = growing32();
    for (let at = 0; at < before.length; at++) {
      this.bits.push(before.items[at]!);
      for (let more = this.words; (at + 1) % this.words === 0 && more < words; more++) {
        this.bits.push(0);
      }
    }
    this.words = words;
  }
}

/** Return sorted numbers as "0,2,5–7". */
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
