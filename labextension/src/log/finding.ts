/** What is sought in the rows of a screen, and which of the matches the reader is at. */
import { Mark } from './mark';
import type { LogRows } from './rows';
import { LogSearch } from './search';
import type { Slices } from './slices';

export class Finding {
  /** in lower case; empty for nothing */
  query = '';
  private current: Mark | null = null;
  /** a search has begun and no match has been gone to yet */
  private seeking = false;
  private search: LogSearch;

  constructor(
    private rows: LogRows,
    private readonly slices: Slices,
    private readonly onProgress: () => void,
  ) {
    this.search = new LogSearch(rows, slices, onProgress);
  }

  end(): void {
    this.search.end();
  }

  /** Seek in other rows. */
  show(rows: LogRows): void {
    this.search.end();
    this.rows = rows;
    this.current = null;
    this.seeking = false;
    this.search = new LogSearch(rows, this.slices, this.onProgress);
    this.search.look(this.query);
  }

  look(query: string): void {
    this.query = query.toLowerCase();
    this.seeking = query !== '';
    if (!query) {
      this.current = null;
    }
    this.search.look(query);
  }

  changed(at: number, removed: number, added: number): void {
    this.current?.changed(this.rows, at, removed, added);
  }

  /** The row of the current match; -1 for none. */
  get row(): number {
    return this.query === '' ? -1 : (this.current?.row ?? -1);
  }

  get count(): number {
    return this.search.count;
  }

  /** The current match, counted from 1; 0 for none. */
  get position(): number {
    const { search, current } = this;
    const at = current ? search.from(current.row) : search.count;
    return at < search.count && search.matches.items[at] === current?.row ? at + 1 : 0;
  }

  /** The row of the match after (1) or before (-1) the current one, else the row `seen`; null for none. */
  step(step: 1 | -1, seen: number): number | null {
    const { search } = this;
    if (!search.count) {
      return null;
    }
    const row = this.current?.row ?? seen;
    const next = step > 0 ? search.from(row + 1) : search.from(row) - 1;
    return this.goTo((next + search.count) % search.count);
  }

  /** The row of the match that a new search is to show first, once that is known: the nearest one from the row
   * `seen` on, or the last of all when the log is being followed. */
  first(seen: number, following: boolean): number | null {
    const { search } = this;
    if (!this.seeking || (following && !search.complete)) {
      return null;
    }
    const match = following ? search.count - 1 : search.from(this.current?.row ?? seen);
    if (match >= 0 && match < search.count) {
      return this.goTo(match);
    }
    if (search.complete) {
      this.seeking = false;
      this.current = null;
    }
    return search.complete && search.count ? this.goTo(search.count - 1) : null;
  }

  private goTo(match: number): number {
    const at = this.search.matches.items[match]!;
    this.seeking = false;
    this.current = Mark.at(this.rows, at);
    return at;
  }
}
