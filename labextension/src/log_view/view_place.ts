/** The pane's position in the log, kept while lines come and go, and its width. */
import { element } from '../page/nodes';
import { HIGH } from '../log/block';
import { RowHeights, ScrollScale } from './layout';
import { type LogRows, RowMark } from '../log/rows';

export interface ScreenNodes {
  /** scrolls; holds `lines`, which is as high as all rows and holds `rows` */
  readonly scroller: HTMLElement;
  readonly lines: HTMLElement;
  readonly rows: HTMLElement;
  /** lines that still grow */
  readonly live: HTMLElement;
  /** an over-long line, whole */
  readonly detail: HTMLElement;
}

const ROW_PX = 20;
/** lines drawn above and below what can be seen; a picture counts as many as it is high */
const OVERSCAN = 6;
/** pixels, where there is no layout yet */
const VIEW = 320;

export class ViewPlace {
  readonly heights = new RowHeights();
  /** the first row in view, and how many pixels of it are above */
  anchor: RowMark | null = null;
  private offset = 0;
  /** pixels of the log that can be seen */
  private view = VIEW;
  private readonly scale = new ScrollScale();

  constructor(private readonly nodes: ScreenNodes) {}

  /** Forget the rows: others are shown. */
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

  /** Take the scroller's position; return true when it is new. */
  scrolled(): boolean {
    const position = this.nodes.scroller.scrollTop;
    // fractions: browsers round positions to device pixels
    if (Math.abs(position - this.scale.position) < 1) {
      return false;
    }
    this.scale.scrolled(position);
    return true;
  }

  get atEnd(): boolean {
    return this.scale.top >= this.scale.end - 2;
  }

  /** Stay where the pane is. */
  hold(rows: LogRows): void {
    if (rows.count) {
      const at = this.heights.rowAt(this.scale.top / ROW_PX);
      this.anchor = RowMark.at(rows, at);
      this.offset = this.scale.top - this.heights.above(at) * ROW_PX;
    }
  }

  /** Stay at a row, in the middle of the view where it is not in view already. */
  goTo(rows: LogRows, at: number): void {
    const { heights, scale, view } = this;
    const top = heights.above(at) * ROW_PX;
    const height = heights.height(at) * ROW_PX;
    scale.resize(heights.total * ROW_PX, view);
    if (top < scale.top || top + height > scale.top + view) {
      scale.moveTo(top - Math.max(0, (view - height) / 2));
    }
    this.hold(rows);
  }

  /** Bring the scroller to where it is to be: to the end when it is to `follow`. */
  bring(rows: LogRows, follow: boolean): void {
    const { scroller, lines } = this.nodes;
    const { scale } = this;
    scale.resize(this.heights.total * ROW_PX, this.view);
    if (follow) {
      scale.moveTo(scale.end);
    } else if (this.anchor) {
      const top = this.heights.above(this.anchor.row) * ROW_PX + this.offset;
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

  /** Return the rows to draw, and at how many pixels of the scrolled content the first of them lies. */
  seen(rows: LogRows): { first: number; last: number; top: number } {
    const { heights, scale, view } = this;
    const first = this.firstDrawn;
    const last = Math.min(rows.count, heights.rowAt((scale.top + view) / ROW_PX + OVERSCAN) + 1);
    return { first, last, top: scale.position + heights.above(first) * ROW_PX - scale.top };
  }

  /** Correct the heights of rows by their measured ones; return true when any was wrong. */
  correctHeights(): boolean {
    let corrected = false;
    let at = this.firstDrawn;
    const heights = [...this.nodes.rows.children].map(node => (node as HTMLElement).offsetHeight);
    for (const height of heights) {
      corrected = (height > 0 && this.heights.measured(at, Math.round(height / ROW_PX))) || corrected;
      at++;
    }
    return corrected;
  }

  private get firstDrawn(): number {
    return this.heights.rowAt(Math.max(0, this.scale.top / ROW_PX - OVERSCAN));
  }
}

/** pixels right of a row's text */
const PADDING = 12;

export class PaneWidth {
  /** width of a wrapped row's text */
  columns = 0;
  private character = 7.2;
  private widest = 0;

  constructor(private readonly nodes: ScreenNodes) {}

  /** Read the pane's width, and the font's; `margin` pixels are left of a row's text. */
  measure(margin: number): void {
    const { scroller, lines } = this.nodes;
    const probe = element('span', 'nbdist-probe', '0'.repeat(100));
    lines.append(probe);
    this.character = probe.getBoundingClientRect().width / 100 || this.character;
    probe.remove();
    const room = (scroller.clientWidth || 800) - margin - PADDING;
    this.columns = Math.max(10, Math.floor(room / this.character));
  }

  /** Forget the rows: others are shown. */
  clear(): void {
    this.widest = 0;
  }

  /** Widen the log to its widest row so far, or it would move sideways while it is scrolled. */
  widen(rows: LogRows, first: number, last: number, margin: number): void {
    const columns = new Uint16Array(Math.max(0, last - first));
    rows.columns(first, Math.max(first, last), columns);
    this.widest = columns.reduce(
      (widest, taken) => (taken < HIGH ? Math.max(widest, taken) : widest),
      this.widest,
    );
    const width = margin + PADDING + Math.ceil(this.widest * this.character);
    this.nodes.lines.style.minWidth = `${width}px`;
  }
}
