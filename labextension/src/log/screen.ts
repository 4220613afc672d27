/**
 * The part of a pane that moves: draws the rows that can be seen, follows the log's end or stays where the
 * reader is, and goes from match to match. Everything here is drawn by hand, at most once a frame.
 */
import { DrawnRows } from './drawn_rows';
import { drawLiveLines } from './live_lines';
import { Mark } from './mark';
import { PaneWidth } from './pane_width';
import type { Drawing } from './row_nodes';
import type { LogRow, LogRows } from './rows';
import type { RunLog } from './run_log';
import { BEFORE_DRAWING, type ScreenLook, type ScreenNodes, type ScreenState } from './screen_state';
import { LogSearch } from './search';
import { ViewPlace } from './view_place';
import { WholeLine } from './whole_line';

export { BEFORE_DRAWING, type ScreenLook, type ScreenNodes, type ScreenState } from './screen_state';

export class LogScreen {
  private rows: LogRows;
  private search: LogSearch;
  private unwatch: () => void = () => undefined;
  private readonly viewed: ViewPlace;
  private readonly width: PaneWidth;
  private following = true;
  private wrapped = false;
  private query = '';
  /** a search has begun and no match has been gone to yet */
  private seeking = false;
  private current: Mark | null = null;
  /** the row that was asked for, to be seen among the others */
  private pointed: Mark | null = null;
  private seen = 0;
  private readonly whole: WholeLine;
  private readonly drawn: DrawnRows;
  private generation = 0;
  private frame = 0;
  private state = BEFORE_DRAWING;
  private readonly unsubscribe: () => void;
  private readonly sizes: ResizeObserver | null = null;

  constructor(
    private readonly log: RunLog,
    private readonly nodes: ScreenNodes,
    private look: ScreenLook,
    private readonly onState: (state: ScreenState) => void,
  ) {
    this.rows = log.all;
    this.viewed = new ViewPlace(nodes);
    this.width = new PaneWidth(nodes);
    this.drawn = new DrawnRows(nodes.rows);
    this.whole = new WholeLine(nodes.detail, () => this.closeDetail());
    this.search = new LogSearch(this.rows, log.slices, () => this.request());
    nodes.scroller.addEventListener('scroll', this.scrolled);
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
    document.removeEventListener('selectionchange', this.selected);
    cancelAnimationFrame(this.frame);
  }

  /** Show other rows, from their end. `live`: the ranks whose growing lines are shown, null for all. */
  show(rows: LogRows, live: number | null): void {
    this.unwatch();
    this.search.end();
    this.rows = rows;
    this.live = live;
    this.search = new LogSearch(rows, this.log.slices, () => this.request());
    this.unwatch = rows.watch((at, removed, added) => this.changed(at, removed, added));
    this.current = this.pointed = this.whole.row = null;
    this.seeking = false;
    this.viewed.clear();
    this.width.clear();
    this.measurePane();
    this.setHeights();
    this.following = true;
    this.drawn.forget();
    this.search.look(this.query);
    this.draw();
  }

  private live: number | null = null;

  dress(look: ScreenLook): void {
    this.look = look;
    this.generation++;
    this.resized();
  }

  follow(following: boolean): void {
    if (this.following && !following) {
      this.seen = this.rows.count;
    }
    this.following = following;
    if (following) {
      this.pointed = null;
    }
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
    this.query = query.toLowerCase();
    this.generation++;
    this.seeking = query !== '';
    if (!query) {
      this.current = null;
    }
    this.search.look(query);
    this.request();
  }

  /** Go to the next match, or back to the one before. */
  step(step: 1 | -1): void {
    const { search } = this;
    if (!search.count) {
      return;
    }
    const row = this.current?.row ?? this.viewed.anchor?.row ?? 0;
    const next = step > 0 ? search.from(row + 1) : search.from(row) - 1;
    this.goToMatch((next + search.count) % search.count);
  }

  jumpToFirstError(): void {
    const at = this.rows.firstError;
    if (at >= 0) {
      this.goTo(at);
      this.pointed = Mark.at(this.rows, at);
      this.draw();
    }
  }

  /** What is selected in the log; empty for nothing. */
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
    this.seekMatch();
    this.viewed.bring(this.rows, this.following);
    this.drawRows();
    if (this.wrapped && this.viewed.correctHeights()) {
      this.viewed.bring(this.rows, this.following);
      this.drawRows();
    }
    drawLiveLines(
      this.nodes.live,
      this.log,
      this.live,
      this.drawing(() => undefined),
    );
    this.whole.draw(
      this.generation,
      this.drawing(() => undefined),
    );
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

  /** Whether the pane is shown. Where there is no layout at all (tests) it counts as shown. */
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
    this.current?.changed(this.rows, at, removed, added);
    this.pointed?.changed(this.rows, at, removed, added);
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
    this.viewed.measure();
    this.width.measure(this.look.margin);
  }

  private setHeights(): void {
    this.viewed.heights.set(this.rows, this.wrapped ? this.width.columns : 0);
  }

  /** Go to the match that a new search is to show first. */
  private seekMatch(): void {
    const { search } = this;
    if (!this.seeking || (this.following && !search.complete)) {
      return;
    }
    const row = this.current?.row ?? this.viewed.anchor?.row ?? 0;
    const match = this.following ? search.count - 1 : search.from(row);
    if (match >= 0 && match < search.count) {
      this.goToMatch(match);
    } else if (search.complete) {
      this.seeking = false;
      this.current = null;
      if (search.count) {
        this.goToMatch(search.count - 1);
      }
    }
  }

  private goToMatch(match: number): void {
    const at = this.search.matches.items[match]!;
    this.seeking = false;
    this.current = Mark.at(this.rows, at);
    this.goTo(at);
  }

  private goTo(at: number): void {
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
      this.width.keep(this.rows, first, last, this.look.margin);
    }
    this.drawn.draw(this.rows, first, last, {
      drawing: this.drawing(row => this.showWhole(row)),
      generation: this.generation,
      current: this.query === '' ? -1 : (this.current?.row ?? -1),
      pointed: this.pointed?.row ?? -1,
      empty: this.look.empty,
    });
  }

  private showWhole(row: LogRow): void {
    this.whole.row = row;
    this.draw();
  }

  private drawing(onMore: (row: LogRow) => void): Drawing {
    return {
      words: this.look.words,
      query: this.query,
      onCellLine: line => this.look.onCellLine(line),
      onMore,
    };
  }

  /** Tell the toolbar, when there is news. */
  private tell(): void {
    const { rows, search } = this;
    const position = this.current ? search.from(this.current.row) : -1;
    const isMatch = position >= 0 && search.matches.items[position] === this.current?.row;
    const state: ScreenState = {
      following: this.following,
      unseen: this.following ? 0 : Math.max(0, rows.count - this.seen),
      wrapped: this.wrapped,
      searching: this.query !== '',
      current: isMatch && position < search.count ? position + 1 : 0,
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
