/** How wide the log is: in columns of its font where lines are wrapped, in pixels where they are not. */
import { element } from './row_nodes';
import type { LogRows } from './rows';
import type { ScreenNodes } from './screen_state';

/** pixels right of a row's text */
const PADDING = 12;

export class PaneWidth {
  /** of a row's text that is wrapped */
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

  /** Other rows are shown. */
  clear(): void {
    this.widest = 0;
  }

  /** The log stays as wide as its widest row so far, or it would move sideways while it is scrolled. */
  keep(rows: LogRows, first: number, last: number, margin: number): void {
    const columns = new Uint16Array(Math.max(0, last - first));
    rows.columns(first, Math.max(first, last), columns);
    this.widest = columns.reduce((widest, one) => Math.max(widest, one), this.widest);
    const width = margin + PADDING + Math.ceil(this.widest * this.character);
    this.nodes.lines.style.minWidth = `${width}px`;
  }
}
