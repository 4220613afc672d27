/** The positions of rows, and scrolling for content of any height. Pure: the pixels are view_place's. */
import { HIGH } from '../log/block';
import { growing16 } from '../log/growing';
import type { LogRows } from '../log/rows';

const CHUNK = 1024;

export class RowHeights {
  /** text lines of each row, where they differ, and of each chunk of rows */
  private readonly lines = growing16();
  private sums: number[] = [];
  private width = Infinity;
  private rows = 0;
  /** true when rows differ in height: where they are wrapped, or some show outputs */
  private differ = false;

  /** Set the heights of `rows` on a pane `width` columns wide; 0: no wrapping. */
  set(rows: LogRows, width: number): void {
    this.clear();
    this.width = width || Infinity;
    this.differ = width > 0 || rows.high > 0;
    this.change(rows, 0, 0, rows.count);
  }

  /** Forget everything: other rows are shown. */
  clear(): void {
    this.lines.truncate(0);
    this.sums = [];
    this.differ = false;
    this.rows = 0;
  }

  /** Take out `removed` rows at `at`, and put `added` there. */
  change(rows: LogRows, at: number, removed: number, added: number): void {
    this.rows = rows.count;
    if (!this.differ && rows.high) {
      this.set(rows, 0);
    } else if (this.differ) {
      const taken = new Uint16Array(added);
      rows.columns(at, at + added, taken);
      const lines = taken.map(columns =>
        columns > HIGH ? columns - HIGH : Math.max(1, Math.ceil(columns / this.width)),
      );
      this.lines.splice(at, removed, lines);
      this.sumFrom(Math.floor(at / CHUNK));
    }
  }

  /** All text lines. */
  get total(): number {
    return this.differ ? this.sums.reduce((sum, lines) => sum + lines, 0) : this.rows;
  }

  height(row: number): number {
    return this.differ ? this.lines.items[row]! : 1;
  }

  /** Return the text lines above `row`. */
  above(row: number): number {
    if (!this.differ) {
      return row;
    }
    const chunk = Math.floor(row / CHUNK);
    let above = 0;
    for (let i = 0; i < chunk; i++) {
      above += this.sums[i]!;
    }
    for (let i = chunk * CHUNK; i < row; i++) {
      above += this.lines.items[i]!;
    }
    return above;
  }

  /** Return the row that holds the text line `line`. */
  rowAt(line: number): number {
    if (!this.differ) {
      return Math.max(0, Math.min(this.rows - 1, Math.floor(line)));
    }
    let chunk = 0;
    let above = 0;
    while (chunk < this.sums.length - 1 && above + this.sums[chunk]! <= line) {
      above += this.sums[chunk++]!;
    }
    let row = chunk * CHUNK;
    while (row < this.rows - 1 && above + this.lines.items[row]! <= line) {
      above += this.lines.items[row++]!;
    }
    return row;
  }

  /** Take the measured height of a row; return true when it is new. */
  measured(row: number, lines: number): boolean {
    if (!this.differ || this.lines.items[row] === lines || row >= this.lines.length) {
      return false;
    }
    this.sums[Math.floor(row / CHUNK)]! += lines - this.lines.items[row]!;
    this.lines.items[row] = lines;
    return true;
  }

  private sumFrom(chunk: number): void {
    const { items, length } = this.lines;
    this.sums.length = chunk;
    for (let row = chunk * CHUNK; row < length; row += CHUNK) {
      const lines = items.subarray(row, Math.min(row + CHUNK, length));
      this.sums.push(lines.reduce((sum, each) => sum + each, 0));
    }
  }
}

/** Content of any height in a scroller of bounded height: browsers cap the height of elements. Content up to the
 * bound is scrolled as it is, higher content by as much more at once. */
export class ScrollScale {
  /** pixels of content above the view */
  top = 0;
  /** the scroller's position that shows it */
  position = 0;
  private content = 0;
  private view = 0;

  constructor(private readonly bound = 16_000_000) {}

  resize(content: number, view: number): void {
    // while nothing changes the position stays as the browser has rounded it
    if (content !== this.content || view !== this.view) {
      this.content = content;
      this.view = view;
      this.moveTo(this.top);
    }
  }

  /** Height of the scroller's content. */
  get height(): number {
    return Math.min(this.content, this.bound);
  }

  /** The largest `top`. */
  get end(): number {
    return Math.max(0, this.content - this.view);
  }

  /** Show the content from `top` on. */
  moveTo(top: number): void {
    this.top = Math.max(0, Math.min(top, this.end));
    this.position = this.top / this.ratio;
  }

  /** Show the content at the reader's position of the scroller. */
  scrolled(position: number): void {
    this.position = position;
    this.top = Math.max(0, Math.min(position * this.ratio, this.end));
  }

  /** pixels of content for each of the scroller's */
  private get ratio(): number {
    return this.end / Math.max(1, this.height - this.view) || 1;
  }
}
