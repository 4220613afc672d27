/** Plain text sought in all rows of a log, whatever its case: in turns, and again in what comes later. */
import type { Block } from './block';
import { growing32, lowerBound } from './growing';
import { plain } from './ansi';
import { type LogRows, RowMark } from './rows';
import type { Slices } from './slices';

/** rows looked at between two looks at the clock */
const STRIDE = 512;

export class LogSearch {
  /** in lower case; empty for nothing */
  query = '';
  /** rows with the text, ascending */
  readonly matches = growing32();
  private searched = 0;
  /** bits by block, as long as the log has it */
  private bitsOf = new WeakMap<Block, Uint8Array | null>();
  /** blocks that were unpacked so far */
  private unpacked = 0;
  /** the match that was gone to */
  private current: RowMark | null = null;
  /** a search has begun and no match has been gone to yet */
  private seeking = false;
  private unwatch: () => void = () => undefined;

  constructor(
    private rows: LogRows,
    private readonly slices: Slices,
    private readonly onProgress: () => void,
  ) {
    this.show(rows);
  }

  /** Search in other rows. */
  show(rows: LogRows): void {
    this.unwatch();
    this.unwatch = rows.subscribe((at, removed, added) => this.changed(at, removed, added));
    this.rows = rows;
    this.current = null;
    this.seeking = false;
    this.begin();
  }

  setQuery(query: string): void {
    this.query = query.toLowerCase();
    this.seeking = query !== '';
    this.current = query ? this.current : null;
    this.bitsOf = new WeakMap();
    this.begin();
  }

  end(): void {
    this.unwatch();
    this.slices.remove(this.work);
  }

  /** True when every row has been searched. */
  get complete(): boolean {
    return this.query === '' || this.searched >= this.rows.count;
  }

  get count(): number {
    return this.matches.length;
  }

  /** The row of the current match; -1 for none. */
  get row(): number {
    return this.current?.row ?? -1;
  }

  /** The current match, counted from 1; 0 for none. */
  get position(): number {
    const at = this.from(this.row);
    return this.row >= 0 && at < this.count && this.matches.items[at] === this.row ? at + 1 : 0;
  }

  /** Return the row of the match after (1) or before (-1) the current one, else the row `seen`; null for none. */
  step(step: 1 | -1, seen: number): number | null {
    const row = this.current?.row ?? seen;
    const next = step > 0 ? this.from(row + 1) : this.from(row) - 1;
    return this.count ? this.goTo((next + this.count) % this.count) : null;
  }

  /** Return the row of the first match to show, once it is known: the nearest from the row `seen` on, or the last
   * when the log is followed. */
  first(seen: number, following: boolean): number | null {
    if (!this.seeking || (following && !this.complete)) {
      return null;
    }
    const match = following ? this.count - 1 : this.from(this.current?.row ?? seen);
    if (match >= 0 && match < this.count) {
      return this.goTo(match);
    }
    if (this.complete) {
      this.seeking = false;
      this.current = null;
    }
    return this.complete && this.count ? this.goTo(this.count - 1) : null;
  }

  private goTo(match: number): number {
    const at = this.matches.items[match]!;
    this.seeking = false;
    this.current = RowMark.at(this.rows, at);
    return at;
  }

  private begin(): void {
    this.restart(0);
    if (this.query) {
      this.slices.now(this.work);
    } else {
      this.slices.remove(this.work);
      this.onProgress();
    }
  }

  /** Return the first match at or after `row`, as its position among the matches; `count` when there is none. */
  private from(row: number): number {
    return lowerBound(this.matches, row);
  }

  private readonly work = (timeUp: () => boolean): boolean => {
    const end = this.rows.count;
    for (let at = this.searched; at < end; at++) {
      this.searched = at + 1;
      const place = this.rows.locate(at);
      const { unpacked } = this;
      if (place && this.hit(place.block, place.index)) {
        this.matches.push(at);
      }
      // unpacking a block takes as long as hundreds of rows
      if ((at % STRIDE === 0 || this.unpacked > unpacked) && timeUp()) {
        break;
      }
    }
    this.onProgress();
    return this.searched >= this.rows.count;
  };

  private hit(block: Block, index: number): boolean {
    if (block.fresh) {
      return plain(block.fresh[index]!).toLowerCase().includes(this.query);
    }
    let bits = this.bitsOf.get(block);
    if (bits === undefined) {
      bits = linesWith(this.query, block);
      this.unpacked++;
      this.bitsOf.set(block, bits);
    }
    return bits !== null && (bits[index >> 3]! & (1 << (index & 7))) !== 0;
  }

  private changed(at: number, removed: number, added: number): void {
    this.current?.changed(this.rows, at, removed, added);
    const gone = removed - added;
    if (at > 0 || gone <= 0 || removed > this.searched || !this.standsForDropped(added)) {
      this.restart(at);
      return;
    }
    // the oldest rows have gone, and one may stand for them: the others were searched
    const kept = lowerBound(this.matches, removed);
    const moved = this.matches.items.slice(kept, this.matches.length).map(row => row - gone);
    this.matches.splice(0, this.matches.length, moved);
    this.searched -= gone;
    this.onProgress();
  }

  /** Return true when the first row is all that came, and stands for lines that were dropped. */
  private standsForDropped(added: number): boolean {
    return added === 0 || (added === 1 && this.rows.row(0).kind === 'dropped');
  }

  private restart(at: number): void {
    this.searched = Math.min(this.searched, at);
    this.matches.truncate(lowerBound(this.matches, at));
    if (this.query) {
      this.slices.add(this.work);
    }
  }
}

/** Return a bit for each line of a block that has `query` in it; null when none has. */
function linesWith(query: string, block: Block): Uint8Array | null {
  const text = plain(block.text()).toLowerCase();
  let match = text.indexOf(query);
  if (match < 0) {
    return null;
  }
  const bits = new Uint8Array((block.count + 7) >> 3);
  let line = 0;
  let end = text.indexOf('\n');
  while (match >= 0) {
    while (end >= 0 && end < match) {
      line++;
      end = text.indexOf('\n', end + 1);
    }
    bits[line >> 3]! |= 1 << (line & 7);
    match = end < 0 ? -1 : text.indexOf(query, end + 1);
  }
  return bits;
}

/** Return the positions of `query` in `text`, whatever its case: pairs of start and end. */
export function rangesWith(query: string, text: string): [number, number][] {
  // a few letters have longer lower cases, in which positions would not agree
  const pattern = new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'giu');
  const matches = query ? [...text.matchAll(pattern)] : [];
  return matches.map(({ 0: match, index }) => [index, index + match.length]);
}
