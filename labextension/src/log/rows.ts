/** The rows of a pane, made on request, and the sets of ranks that wrote them. */
import type { Block } from './block';
import { growing16 } from './growing';

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

/** The block and index of a row's line; block is null for placeholders. */
export interface LineLocation {
  block: Block | null;
  index: number;
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
  locate(at: number, place: LineLocation): void;
  /** Columns that the texts of rows `from` to `to` take (or `HIGH`, and of how many lines), into `into` from its position 0 on. */
  columns(from: number, to: number, into: Uint16Array): void;
  /** The row of a rank's line, or of the next line there is; the search begins at `from`. */
  find(rank: number, line: number, from: number): number;
  watch(listener: RowsListener): () => void;
}

/** columns of rows that stand for missing lines; their words differ by language */
export const PLACEHOLDER_COLUMNS = 64;
/** columns that "×16" takes behind a folded line */
export const FOLD_COLUMNS = 6;

/** Rows that are watched. */
export class Watched {
  private readonly listeners = new Set<RowsListener>();

  watch(listener: RowsListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  protected tell(at: number, removed: number, added: number): void {
    for (const listener of this.listeners) {
      listener(at, removed, added);
    }
  }
}

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

  /** Return the number of ranks in a set. */
  size(id: number): number {
    return this.sizes.items[id]!;
  }

  of(id: number): RankSet {
    return this.sets[id]!;
  }

  single(rank: number): RankSet {
    return this.plus(null, rank);
  }

  /** Return the set of `set` and `rank`. */
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
