/** Where in the log the pane is: at its end, or at the row that the reader looks at, whatever comes and goes. */
import { Mark } from './mark';
import { RowHeights } from './row_heights';
import type { LogRows } from './rows';
import type { ScreenNodes } from './screen_state';
import { ScrollScale } from './scroll_scale';

const ROW = 20;
/** rows drawn above and below what can be seen */
const OVERSCAN = 6;
/** pixels, where there is no layout yet */
const VIEW = 320;

export class ViewPlace {
  readonly heights = new RowHeights();
  /** the first row in view, and how many pixels of it are above */
  anchor: Mark | null = null;
  private offset = 0;
  /** pixels of the log that can be seen */
  private view = VIEW;
  private readonly scale = new ScrollScale();

  constructor(private readonly nodes: ScreenNodes) {}

  /** Other rows are shown. */
  clear(): void {
    this.anchor = null;
    this.heights.clear();
  }

  measure(): void {
    this.view = this.nodes.scroller.clientHeight || VIEW;
  }

  changed(rows: LogRows, at: number, removed: number, added: number): void {
    this.heights.change(rows, at, removed, added);
    this.anchor?.changed(rows, at, removed, added);
  }

  /** The reader has scrolled; whether that is news. */
  scrolled(): boolean {
    const { scroller } = this.nodes;
    const position = scroller.scrollTop;
    // fractions: browsers round positions to device pixels
    if (Math.abs(position - this.scale.position) < 1) {
      return false;
    }
    const wanted = this.scale.scrolled(position);
    if (wanted !== position) {
      scroller.scrollTop = wanted;
      this.scale.position = scroller.scrollTop;
    }
    return true;
  }

  get atEnd(): boolean {
    return this.scale.top >= this.scale.end - 2;
  }

  /** Stay where the pane is. */
  hold(rows: LogRows): void {
    if (rows.count) {
      const at = this.heights.rowAt(this.scale.top / ROW);
      this.anchor = Mark.at(rows, at);
      this.offset = this.scale.top - this.heights.above(at) * ROW;
    }
  }

  /** Stay at a row, in the middle of the view where it is not in view already. */
  goTo(rows: LogRows, at: number): void {
    const { heights, scale, view } = this;
    const top = heights.above(at) * ROW;
    const height = heights.height(at) * ROW;
    scale.resize(heights.total * ROW, view);
    if (top < scale.top || top + height > scale.top + view) {
      scale.moveTo(top - Math.max(0, (view - height) / 2));
    }
    this.hold(rows);
  }

  /** Bring the scroller to where it is to be: to the end when it is to `follow`. */
  bring(rows: LogRows, follow: boolean): void {
    const { scroller, lines } = this.nodes;
    const { scale } = this;
    scale.resize(this.heights.total * ROW, this.view);
    if (follow) {
      scale.moveTo(scale.end);
    } else if (this.anchor) {
      const top = this.heights.above(this.anchor.row) * ROW + this.offset;
      if (Math.abs(top - scale.top) >= 1) {
        scale.moveTo(top);
      }
    }
    lines.style.height = `${scale.height}px`;
    if (Math.abs(scroller.scrollTop - scale.position) >= 1) {
      scroller.scrollTop = scale.position;
      // where there is no layout nothing scrolls
      scale.position = scroller.clientHeight ? scroller.scrollTop : scale.position;
    }
    if (follow) {
      this.hold(rows);
    }
  }

  /** The rows to draw, and at how many pixels of the scrolled content the first of them lies. */
  seen(rows: LogRows): { first: number; last: number; top: number } {
    const { heights, scale, view } = this;
    const first = this.firstDrawn;
    const last = Math.min(rows.count, heights.rowAt((scale.top + view) / ROW) + 1 + OVERSCAN);
    return { first, last, top: scale.position + heights.above(first) * ROW - scale.top };
  }

  /** Correct the heights of rows by what they turned out to be; whether any was wrong. */
  correctHeights(): boolean {
    let corrected = false;
    let at = this.firstDrawn;
    const heights = [...this.nodes.rows.children].map(node => (node as HTMLElement).offsetHeight);
    for (const height of heights) {
      corrected = (height > 0 && this.heights.measured(at, Math.round(height / ROW))) || corrected;
      at++;
    }
    return corrected;
  }

  private get firstDrawn(): number {
    return Math.max(0, this.heights.rowAt(this.scale.top / ROW) - OVERSCAN);
  }
}
