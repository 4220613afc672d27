/** The part of a pane that moves: draws the rows that can be seen, follows the log's end or stays where the reader
 * is, and goes from match to match. Everything here is drawn by hand, at most once a frame. */
import { type Drawing, drawLiveLines, DrawnRows, WholeLine } from './drawing';
import { type LogRow, type LogRows, RowMark } from '../log/rows';
import type { RunLog } from '../log/run_log';
import { LogSearch } from '../log/search';
import { PaneWidth, type ScreenNodes, ViewPlace } from './view_place';

/** The state of the toolbar. */
export type ScreenState = Readonly<typeof BEFORE_DRAWING>;

export const BEFORE_DRAWING = {
  following: true,
  /** lines that were written since following ended */
  unseen: 0,
  wrapped: false,
  searching: false,
  /** the current match, counted from 1; 0 for none */
  current: 0,
  matches: 0,
  lines: 0,
  folded: 0,
  failed: false,
};

export interface ScreenOptions {
  /** pixels left of a row's text */
  readonly margin: number;
  /** the text where there are no rows */
  readonly empty: string;
  onCellLine(line: number): void;
}

/** An element that is put elsewhere in the page is scrolled to its top, and keeps its size. Who moves a panel says so;
 * of other moves the style sheet tells, by an animation that begins again. */
const MOVED = ['nbdist:moved', 'animationstart'];

export class LogScreen {
  private rows: LogRows;
  /** the rank whose log is shown, null for all */
  private rank: number | null = null;
  private readonly search: LogSearch;
  private unwatch: () => void = () => undefined;
  private readonly viewed: ViewPlace;
  private readonly width: PaneWidth;
  private following = true;
  private wrapped = false;
  /** the row that was asked for, to be seen among the others */
  private pointed: RowMark | null = null;
  /** lines that were written when following ended; null while there were none */
  private read: number | null = null;
  private readonly whole: WholeLine;
  private readonly drawn: DrawnRows;
  /** true when lines that still grow are shown */
  private growing = false;
  private generation = 0;
  private frame = 0;
  private state: ScreenState = BEFORE_DRAWING;
  private options: ScreenOptions = { margin: 0, empty: '', onCellLine: () => undefined };
  private readonly unsubscribe: () => void;
  private readonly sizes: ResizeObserver | null = null;

  constructor(
    private readonly log: RunLog,
    private readonly nodes: ScreenNodes,
    private readonly onState: (state: ScreenState) => void,
  ) {
    this.rows = log.all;
    this.viewed = new ViewPlace(nodes);
    this.width = new PaneWidth(nodes);
    this.drawn = new DrawnRows(nodes.rows);
    this.whole = new WholeLine(nodes.detail, () => this.closeDetail());
    this.search = new LogSearch(this.rows, log.slices, () => this.request());
    nodes.scroller.addEventListener('scroll', this.scrolled);
    MOVED.forEach(type => nodes.scroller.addEventListener(type, this.moved));
    document.addEventListener('selectionchange', this.selected);
    if (typeof ResizeObserver !== 'undefined') {
      this.sizes = new ResizeObserver(() => this.resized());
      this.sizes.observe(nodes.scroller);
    }
    this.unsubscribe = log.subscribe(() => this.request());
  }

  end(): void {
    this.unsubscribe();
    this.unwatch();
    this.search.end();
    this.sizes?.disconnect();
    this.nodes.scroller.removeEventListener('scroll', this.scrolled);
    MOVED.forEach(type => this.nodes.scroller.removeEventListener(type, this.moved));
    document.removeEventListener('selectionchange', this.selected);
    cancelAnimationFrame(this.frame);
  }

  /** Show other rows, of a rank or (null) of all, from their end. */
  show(rows: LogRows, rank: number | null): void {
    this.unwatch();
    this.rows = rows;
    this.rank = rank;
    this.search.show(rows);
    this.unwatch = rows.subscribe((at, removed, added) => this.changed(at, removed, added));
    this.pointed = this.whole.row = this.read = null;
    this.viewed.clear();
    this.width.clear();
    this.measurePane();
    this.setHeights();
    this.following = true;
    this.drawn.forget();
    this.draw();
  }

  setOptions(options: ScreenOptions): void {
    this.options = options;
    this.generation++;
    this.resized();
  }

  follow(following: boolean): void {
    if (this.following && !following) {
      this.see();
    }
    this.following = following;
    this.pointed = following ? null : this.pointed;
    this.request();
  }

  toggleFollow(): void {
    this.follow(!this.following);
  }

  toggleWrap(): void {
    this.wrapped = !this.wrapped;
    this.nodes.scroller.classList.toggle('nbdist-wrapped', this.wrapped);
    this.nodes.scroller.scrollLeft = 0;
    this.setHeights();
    this.draw();
  }

  /** Look for text; the nearest match below becomes the current one, or the last when following. */
  find(query: string): void {
    this.generation++;
    this.search.setQuery(query);
    this.request();
  }

  /** Go to the next match, or back to the one before. */
  step(step: 1 | -1): void {
    this.goTo(this.search.step(step, this.viewed.anchor?.row ?? 0));
  }

  jumpToFirstError(): void {
    const at = this.rows.firstError;
    if (at >= 0) {
      this.goTo(at);
      this.pointed = RowMark.at(this.rows, at);
      this.draw();
    }
  }

  /** The selected text of the log; empty for none. */
  get selection(): string {
    const selection = document.getSelection();
    return selection && this.holdsSelection(selection) ? selection.toString() : '';
  }

  get shown(): LogRows {
    return this.rows;
  }

  closeDetail(): void {
    this.whole.row = null;
    this.draw();
    this.nodes.scroller.focus();
  }

  /** Draw with the next frame. */
  request(): void {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.goTo(this.search.first(this.viewed.anchor?.row ?? 0, this.following));
    this.viewed.bring(this.rows, this.following);
    const whole = this.drawing(() => undefined);
    this.growing = drawLiveLines(this.nodes.live, this.log, this.rank, whole);
    this.nodes.scroller.classList.toggle('nbdist-without-rows', this.growing && !this.rows.count);
    this.drawRows();
    if (this.wrapped && this.viewed.correctHeights()) {
      this.viewed.bring(this.rows, this.following);
      this.drawRows();
    }
    this.whole.draw(this.generation, whole);
    this.tell();
  }

  private readonly scrolled = (): void => {
    // a pane that is not shown is at no position
    if (!this.laidOut || !this.viewed.scrolled()) {
      return;
    }
    if (this.viewed.atEnd !== this.following) {
      this.follow(this.viewed.atEnd);
    }
    this.viewed.hold(this.rows);
    this.draw();
  };

  private readonly moved = (event: Event): void => {
    if (event.target === this.nodes.scroller) {
      this.resized();
    }
  };

  /** True when the pane is shown. Without any layout (tests) it counts as shown. */
  private get laidOut(): boolean {
    return this.sizes === null || this.nodes.scroller.clientHeight > 0;
  }

  private readonly selected = (): void => {
    const selection = document.getSelection();
    if (this.following && selection && this.holdsSelection(selection)) {
      this.follow(false);
    }
  };

  private holdsSelection(selection: Selection): boolean {
    return !selection.isCollapsed && this.nodes.rows.contains(selection.anchorNode);
  }

  private changed(at: number, removed: number, added: number): void {
    this.viewed.changed(this.rows, at, removed, added);
    this.pointed?.changed(this.rows, at, removed, added);
    if (!this.rows.count) {
      // all lines come again, with other numbers
      this.read = null;
    }
    this.request();
  }

  private resized(): void {
    const before = this.width.columns;
    this.measurePane();
    if (this.wrapped && before !== this.width.columns) {
      this.setHeights();
    }
    this.draw();
  }

  private measurePane(): void {
    // a pane that is hidden has no size, and comes back with the one it had (JupyterLab hides all for another theme)
    if (this.laidOut) {
      this.viewed.measure();
      this.width.measure(this.options.margin);
    }
  }

  private setHeights(): void {
    this.viewed.heights.set(this.rows, this.wrapped ? this.width.columns : 0);
  }

  private goTo(at: number | null): void {
    if (at === null) {
      return;
    }
    this.follow(false);
    this.viewed.goTo(this.rows, at);
    this.request();
  }

  private drawRows(): void {
    const { first, last, top } = this.viewed.seen(this.rows);
    this.nodes.rows.style.top = `${top}px`;
    if (this.wrapped) {
      this.nodes.lines.style.minWidth = '0';
    } else {
      this.width.widen(this.rows, first, last, this.options.margin);
    }
    this.drawn.draw(this.rows, first, last, {
      drawing: this.drawing(row => this.showWhole(row)),
      generation: this.generation,
      current: this.search.row,
      pointed: this.pointed?.row ?? -1,
      empty: this.growing ? '' : this.options.empty,
    });
  }

  private showWhole(row: LogRow): void {
    this.whole.row = row;
    this.draw();
  }

  private drawing(onMore: (row: LogRow) => void): Drawing {
    return {
      query: this.search.query,
      outputs: this.log.outputs,
      onCellLine: line => this.options.onCellLine(line),
      onMore,
    };
  }

  /** Mark all lines as seen; without any, nothing is unread either. */
  private see(): void {
    this.read = this.rows.count ? this.written : null;
  }

  /** Lines that were written, without older ones that came when the reader scrolled to them. */
  private get written(): number {
    const ranks = this.rank === null ? this.log.ranks : [this.rank];
    return ranks.reduce((sum, rank) => sum + this.log.rank(rank).written, 0);
  }

  /** Tell the toolbar, when there is news. */
  private tell(): void {
    const { rows, search } = this;
    if (!this.following && this.read === null) {
      this.see();
    }
    const state: ScreenState = {
      following: this.following,
      unseen: this.following ? 0 : this.written - (this.read ?? this.written),
      wrapped: this.wrapped,
      searching: search.query !== '',
      current: search.position,
      matches: search.count,
      lines: rows.lines,
      folded: rows.folded,
      failed: rows.firstError >= 0,
    };
    const names = Object.keys(state) as (keyof ScreenState)[];
    if (names.some(name => state[name] !== this.state[name])) {
      this.state = state;
      this.onState(state);
    }
  }
}
