/** Rows of the log as nodes. Text of the log only ever becomes text nodes. */
import { spansOf, type Span } from './colours';
import { LONG, plain, SHOWN_OF_LONG } from './line_text';
import type { LogRow } from './rows';
import { rangesWith } from './search';
import type { LogWords } from './words';

/** How rows are drawn now. */
export interface Drawing {
  readonly words: LogWords;
  /** sought text in lower case; empty for none */
  readonly query: string;
  onCellLine(line: number): void;
  /** show an over-long line whole */
  onMore(row: LogRow): void;
}

// a traceback's line of the cell: the program of a run is runs/<run>/cell.py
const CELL_LINE = /File "[^"]*\/runs\/(?:[^"]*\/)?cell\.py", (line (\d+))/;

export function element(tag: string, className = '', text?: string): HTMLElement {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  if (text !== undefined) {
    node.textContent = text;
  }
  return node;
}

/** Seconds since the run began, as "0:02.1" or "1:02:03". */
export function clock(seconds: number): string {
  const two = (value: number) => String(value).padStart(2, '0');
  const tenths = Math.floor(seconds * 10 + 0.001);
  const whole = Math.floor(tenths / 10);
  if (whole >= 3600) {
    return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  }
  return `${Math.floor(whole / 60)}:${two(whole % 60)}.${tenths % 10}`;
}

/** The node of a row. `now`: it holds the current match. */
export function rowNode(row: LogRow, now: boolean, drawing: Drawing): HTMLElement {
  const node = element('div', 'nbdist-line');
  const one = row.ranks?.ranks.length === 1;
  if (one) {
    node.style.setProperty('--nb-c', `var(--nb-r${row.ranks!.ranks[0]! % 8})`);
  } else {
    node.classList.add('nbdist-shared');
  }
  const gutter = element('span', 'nbdist-gutter', row.ranks?.label ?? '');
  if (row.ranks && !one) {
    gutter.title = drawing.words.ranks(row.ranks.label);
  }
  node.append(gutter, element('span', 'nbdist-time', Number.isNaN(row.time) ? '' : clock(row.time)));
  node.append(row.kind === 'line' ? lineNode(row, now, drawing) : placeholderNode(row, drawing.words));
  return node;
}

function placeholderNode(row: LogRow, words: LogWords): HTMLElement {
  const say = { missing: words.missing, skipped: words.skipped, dropped: words.dropped, line: () => '' }[
    row.kind
  ];
  return element('span', 'nbdist-text nbdist-lost', say(row.amount));
}

function lineNode(row: LogRow, now: boolean, drawing: Drawing): HTMLElement {
  const node = element('span', 'nbdist-text');
  const length = plain(row.text).length;
  const shown = length > LONG ? SHOWN_OF_LONG : length;
  const marked = appendText(node, row.text, shown, now, drawing);
  if (shown < length) {
    node.append(moreNode(row, length - shown, now && !marked, drawing));
  }
  if (row.ranks && row.ranks.ranks.length > 1) {
    node.append(element('span', 'nbdist-fold', `×${row.ranks.ranks.length}`));
  }
  return node;
}

function moreNode(row: LogRow, rest: number, now: boolean, drawing: Drawing): HTMLElement {
  const button = element('button', 'nbdist-more') as HTMLButtonElement;
  button.type = 'button';
  const text = drawing.words.more(rest);
  // the match is in the part that is not shown
  button.append(now ? element('mark', 'nbdist-now', text) : text);
  button.addEventListener('click', () => drawing.onMore(row));
  return button;
}

/** Append the first `length` characters of `line`, with colours, matches and links; whether any match was. */
export function appendText(
  node: HTMLElement,
  line: string,
  length: number,
  now: boolean,
  drawing: Drawing,
): boolean {
  const text = plain(line).slice(0, length);
  const marks = rangesWith(drawing.query, text);
  const painter = new Painter(spansOf(line), marks, now);
  const link = text.includes('cell.py"') ? CELL_LINE.exec(text) : null;
  if (!link) {
    painter.paint(node, 0, length);
    return marks.length > 0;
  }
  const start = link.index + link[0].length - link[1]!.length;
  const end = link.index + link[0].length;
  const number = Number(link[2]);
  const button = element('button', 'nbdist-cell-link') as HTMLButtonElement;
  button.type = 'button';
  button.title = drawing.words.cellLine(number);
  button.setAttribute('aria-label', button.title);
  button.addEventListener('click', () => drawing.onCellLine(number));
  painter.paint(node, 0, start);
  painter.paint(button, start, end);
  node.append(button);
  painter.paint(node, end, length);
  return marks.length > 0;
}

/** Paints parts of a line, one after the other. */
class Painter {
  private first: boolean;

  constructor(
    private readonly spans: readonly Span[],
    private readonly marks: readonly [number, number][],
    now: boolean,
  ) {
    // of the matches in a row the first stands for the row
    this.first = now;
  }

  paint(node: HTMLElement, from: number, to: number): void {
    let start = 0;
    for (const span of this.spans) {
      const end = start + span.text.length;
      if (end > from && start < to) {
        this.paintSpan(node, span, start, Math.max(from, start), Math.min(to, end));
      }
      start = end;
    }
  }

  private paintSpan(node: HTMLElement, span: Span, start: number, from: number, to: number): void {
    const target = styled(span);
    const into = target ?? node;
    let at = from;
    for (const [markStart, markEnd] of this.marks) {
      const markFrom = Math.max(at, markStart);
      const markTo = Math.min(to, markEnd);
      if (markFrom < markTo) {
        into.append(span.text.slice(at - start, markFrom - start));
        into.append(this.mark(span.text.slice(markFrom - start, markTo - start), markEnd <= to));
        at = markTo;
      }
    }
    into.append(span.text.slice(at - start, to - start));
    if (target) {
      node.append(target);
    }
  }

  private mark(text: string, whole: boolean): HTMLElement {
    const mark = element('mark', this.first ? 'nbdist-now' : '', text);
    // a match that goes on in the next span is still the first
    if (whole) {
      this.first = false;
    }
    return mark;
  }
}

function styled(span: Span): HTMLElement | null {
  if (!span.classes && !span.colour && !span.background) {
    return null;
  }
  const node = element('span', span.classes);
  node.style.color = span.colour;
  node.style.backgroundColor = span.background;
  return node;
}
