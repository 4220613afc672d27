/** What a pane shows: a sequence of rows, made when they are asked for. */
import type { Block } from './block';
import type { RankSet } from './rank_sets';

/**
 * `missing`: `amount` lines have not come, NaN or 0 when that is not known (yet). `skipped`: `amount` bytes of the log were passed over.
 * `dropped`: `amount` lines had to go again to bound the page's memory.
 */
export interface LogRow {
  readonly kind: 'line' | 'missing' | 'skipped' | 'dropped';
  readonly rank: number;
  /** number of the line, or of the line after the placeholder */
  readonly line: number;
  readonly ranks: RankSet | null;
  readonly time: number;
  readonly text: string;
  readonly amount: number;
}

/** Where the line of a row lies; block is null for placeholders. */
export interface Place {
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
  row(at: number): LogRow;
  locate(at: number, place: Place): void;
  /** Columns that the texts of rows `from` to `to` take, into `into` from its position 0 on. */
  columns(from: number, to: number, into: Uint16Array): void;
  /** The row of a rank's line, or of the next line there is; the search begins at `from`. */
  find(rank: number, line: number, from: number): number;
  watch(listener: RowsListener): () => void;
}

/** columns of rows that stand for missing lines; their words differ by language */
export const PLACEHOLDER_COLUMNS = 64;
/** columns that "×16" takes behind a folded line */
export const FOLD_COLUMNS = 6;

export class Watchers {
  private readonly listeners = new Set<RowsListener>();

  add(listener: RowsListener): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  tell(at: number, removed: number, added: number): void {
    for (const listener of this.listeners) {
      listener(at, removed, added);
    }
  }
}
