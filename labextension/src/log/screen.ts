/**
 * The part of a pane that moves: draws the rows that can be seen, follows the log's end or stays where the
 * reader is, and goes from match to match. Everything here is drawn by hand, at most once a frame.
 */
import { plain } from './line_text';
import { RowHeights } from './row_heights';
import { appendText, element, rowNode, type Drawing } from './row_nodes';
import type { LogRow, LogRows } from './rows';
import type { RunLog } from './run_log';
import { ScrollScale } from './scroll_scale';
import { LogSearch } from './search';
import type { LogWords } from './words';

const ROW = 20;
/** rows drawn above and below what can be seen */
const OVERSCAN = 6;
/** pixels, where there is no layout yet */
const VIEW = 320;
/** pixels right of a row's text */
const PADDING = 12;

/** What the toolbar shows. */
export interface ScreenState {
  readonly following: boolean;
  /** rows that came since following ended */
  readonly unseen: number;
  readonly wrapped: boolean;
  readonly searching: boolean;
  /** the current match, counted from 1; 0 for none */
  readonly current: number;
  readonly matches: number;
  readonly lines: number;
  readonly folded: number;
  readonly failed: boolean;
}

export const BEFORE_DRAWING: ScreenState = {
  following: true,
  unseen: 0,
  wrapped: false,
  searching: false,
  current: 0,
  matches: 0,
  lines: 0,
  folded: 0,
  failed: false,
};

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

export interface ScreenLook {
  readonly words: LogWords;
  /** pixels left of a row's text */
  readonly margin: number;
  /** what is said when there are no rows */
  readonly empty: string;
  onCellLine(line: number): void;
}

/** A row that is kept track of while rows come and go. */
class Mark {
  constructor(
    public row: number,
    private readonly rank: number,
    private readonly line: number,
  ) {}

  static at(rows: LogRows, at: number): Mark {
    const { rank, line } = rows.row(at);
    return new Mark(at, rank, line);
  }

  changed(rows: LogRows, at: number, removed: number, added: number): void {
    if (this.row >= at + removed) {
      this.row += added - removed;
    } else if (this.row >= at) {
      this.row = rows.find(this.rank, this.line, at);
    }
  }
}

interface Drawn {
  readonly node: HTMLElement;
  readonly signature: string;
}

export class LogScreen {
  private rows: LogRows;
  private search: LogSearch;
  private unwatch: () => void = () => undefined;
  private readonly heights = new RowHeights();
  private readonly scale = new ScrollScale();
  private following = true;
  private wrapped = false;
  private query = '';
  /** a search has begun and no match has been gone to yet */
  private seeking = false;
  private current: Mark | null = null;
  /** the row that was asked for, to be seen among the others */
  private pointed: Mark | null = null;
  /** the first row in view, and how many pixels of it are above */
  private anchor: Mark | null = null;
  private offset = 0;
  private seen = 0;
  private detailed: LogRow | null = null;
  private drawn = new Map<string, Drawn>();
  private generation = 0;
  private widest = 0;
  private character = 7.2;
  private width = 0;
  private view = VIEW;
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
    this.current = this.pointed = this.anchor = this.detailed = null;
    this.seeking = false;
    this.widest = 0;
    this.heights.clear();
    this.measurePane();
    this.setHeights();
    this.following = true;
    this.forgetDrawn();
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
    const row = this.current?.row ?? this.anchor?.row ?? 0;
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
    this.detailed = null;
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
    this.place();
    this.drawRows();
    if (this.wrapped && this.measureRows()) {
      this.place();
      this.drawRows();
    }
    this.drawLive();
    this.drawDetail();
    this.tell();
  }

  private readonly scrolled = (): void => {
    const { scroller } = this.nodes;
    const position = scroller.scrollTop;
    // a pane that is not shown is at no position; fractions: browsers round positions to device pixels
    if (!this.laidOut || Math.abs(position - this.scale.position) < 1) {
      return;
    }
    const wanted = this.scale.scrolled(position);
    if (wanted !== position) {
      scroller.scrollTop = wanted;
      this.scale.position = scroller.scrollTop;
    }
    const atEnd = this.scale.top >= this.scale.end - 2;
    if (atEnd !== this.following) {
      this.follow(atEnd);
    }
    this.holdAnchor();
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
    this.heights.change(this.rows, at, removed, added);
    for (const mark of [this.current, this.pointed, this.anchor]) {
      mark?.changed(this.rows, at, removed, added);
    }
    this.request();
  }

  private resized(): void {
    const before = this.width;
    this.measurePane();
    if (this.wrapped && before !== this.width) {
      this.setHeights();
    }
    this.draw();
  }

  /** Read the pane's size, and the font's. */
  private measurePane(): void {
    const { scroller, lines } = this.nodes;
    this.view = scroller.clientHeight || VIEW;
    const probe = element('span', 'nbdist-probe', '0'.repeat(100));
    lines.append(probe);
    this.character = probe.getBoundingClientRect().width / 100 || this.character;
    probe.remove();
    const room = (scroller.clientWidth || 800) - this.look.margin - PADDING;
    this.width = Math.max(10, Math.floor(room / this.character));
  }

  private setHeights(): void {
    this.heights.set(this.rows, this.wrapped ? this.width : 0);
  }

  /** Go to the match that a new search is to show first. */
  private seekMatch(): void {
    const { search } = this;
    if (!this.seeking || (this.following && !search.complete)) {
      return;
    }
    const row = this.current?.row ?? this.anchor?.row ?? 0;
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

  /** Stay at a row, in the middle of the view where it is not in view already. */
  private goTo(at: number): void {
    this.follow(false);
    const top = this.heights.above(at) * ROW;
    const height = this.heights.height(at) * ROW;
    this.scale.resize(this.heights.total * ROW, this.view);
    if (top < this.scale.top || top + height > this.scale.top + this.view) {
      this.scale.moveTo(top - Math.max(0, (this.view - height) / 2));
    }
    this.holdAnchor();
    this.request();
  }

  private holdAnchor(): void {
    if (this.rows.count) {
      const at = this.heights.rowAt(this.scale.top / ROW);
      this.anchor = Mark.at(this.rows, at);
      this.offset = this.scale.top - this.heights.above(at) * ROW;
    }
  }

  /** Bring the scroller to where it is to be. */
  private place(): void {
    const { scroller, lines } = this.nodes;
    const { scale } = this;
    scale.resize(this.heights.total * ROW, this.view);
    if (this.following) {
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
    if (this.following) {
      this.holdAnchor();
    }
  }

  private drawRows(): void {
    const { rows } = this.nodes;
    const first = Math.max(0, this.heights.rowAt(this.scale.top / ROW) - OVERSCAN);
    const last = Math.min(
      this.rows.count,
      this.heights.rowAt((this.scale.top + this.view) / ROW) + 1 + OVERSCAN,
    );
    rows.style.top = `${this.scale.position + this.heights.above(first) * ROW - this.scale.top}px`;
    this.keepWidth(first, last);
    const drawing: Drawing = {
      words: this.look.words,
      query: this.query,
      onCellLine: line => this.look.onCellLine(line),
      onMore: row => this.showDetail(row),
    };
    const drawn = new Map<string, Drawn>();
    for (let at = first; at < last; at++) {
      this.drawRow(at, drawing, drawn);
    }
    this.drawn = drawn;
    putInto(
      rows,
      this.rows.count
        ? [...drawn.values()].map(({ node }) => node)
        : [element('div', 'nbdist-empty', this.look.empty)],
    );
  }

  private drawRow(at: number, drawing: Drawing, drawn: Map<string, Drawn>): void {
    const row = this.rows.row(at);
    const now = this.query !== '' && this.current?.row === at;
    const pointed = this.pointed?.row === at;
    const key = `${row.kind}${row.rank}:${row.line}`;
    const signature = `${row.ranks?.id}|${row.amount}|${this.generation}|${now}|${pointed}`;
    let one = this.drawn.get(key);
    if (one?.signature !== signature) {
      const node = rowNode(row, now, drawing);
      node.classList.toggle('nbdist-pointed', pointed);
      one = { node, signature };
    }
    drawn.set(key, one);
  }

  private forgetDrawn(): void {
    this.drawn = new Map();
    this.nodes.rows.replaceChildren();
  }

  /** The log stays as wide as its widest row so far, or it would move sideways while it is scrolled. */
  private keepWidth(first: number, last: number): void {
    if (!this.wrapped) {
      const columns = new Uint16Array(Math.max(0, last - first));
      this.rows.columns(first, Math.max(first, last), columns);
      this.widest = columns.reduce((widest, one) => Math.max(widest, one), this.widest);
    }
    const width = this.look.margin + PADDING + Math.ceil(this.widest * this.character);
    this.nodes.lines.style.minWidth = this.wrapped ? '0' : `${width}px`;
  }

  /** Correct the heights of rows by what they turned out to be; whether any was wrong. */
  private measureRows(): boolean {
    let corrected = false;
    let at = Math.max(0, this.heights.rowAt(this.scale.top / ROW) - OVERSCAN);
    const heights = [...this.nodes.rows.children].map(node => (node as HTMLElement).offsetHeight);
    for (const height of heights) {
      corrected = (height > 0 && this.heights.measured(at, Math.round(height / ROW))) || corrected;
      at++;
    }
    return corrected;
  }

  private drawLive(): void {
    const growing = this.log.ranks
      .filter(rank => this.live === null || this.live === rank)
      .filter(rank => this.log.rank(rank).partial);
    const drawing: Drawing = { ...this.inert, query: this.query };
    const lines = growing.map(rank => {
      const text = this.log.rank(rank).partial;
      const node = element('div', 'nbdist-live-line');
      node.style.setProperty('--nb-c', `var(--nb-r${rank % 8})`);
      const content = element('span', 'nbdist-text');
      appendText(content, text, plain(text).length, false, drawing);
      node.append(element('span', 'nbdist-gutter', String(rank)), element('span', 'nbdist-time'), content);
      return node;
    });
    this.nodes.live.hidden = !lines.length;
    this.nodes.live.replaceChildren(...lines);
  }

  private showDetail(row: LogRow): void {
    this.detailed = row;
    this.draw();
  }

  private drawDetail(): void {
    const { detail } = this.nodes;
    const row = this.detailed;
    const shown = row ? `${row.rank}:${row.line}|${this.generation}` : '';
    if (detail.dataset['shown'] === shown) {
      return;
    }
    detail.dataset['shown'] = shown;
    detail.hidden = !row;
    detail.replaceChildren();
    if (row) {
      const close = element('button', 'nbdist-tool', '×') as HTMLButtonElement;
      close.type = 'button';
      close.title = this.look.words.close;
      close.setAttribute('aria-label', close.title);
      close.addEventListener('click', () => this.closeDetail());
      const text = element('div', 'nbdist-whole-text');
      appendText(text, row.text, plain(row.text).length, false, { ...this.inert, query: this.query });
      detail.append(text, close);
    }
  }

  private get inert(): Drawing {
    return {
      words: this.look.words,
      query: '',
      onCellLine: line => this.look.onCellLine(line),
      onMore: () => undefined,
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

/** Make `nodes` the children of `parent`; those that are there already stay, and with them what is selected. */
function putInto(parent: HTMLElement, nodes: readonly HTMLElement[]): void {
  const wanted = new Set<Node>(nodes);
  for (const child of [...parent.childNodes]) {
    if (!wanted.has(child)) {
      parent.removeChild(child);
    }
  }
  let before = parent.firstChild;
  for (const node of nodes) {
    if (node === before) {
      before = before.nextSibling;
    } else {
      parent.insertBefore(node, before);
    }
  }
}
