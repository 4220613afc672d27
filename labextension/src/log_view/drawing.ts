/** The log as nodes: its rows, the lines that still grow, a long line whole. Text of the log only ever becomes text nodes. */
import { clock } from '../words/formats';
import { buttonNode, element, rankColour } from '../page/nodes';
import { logWords } from '../words/log';
import { LONG, plain, SHOWN_OF_LONG } from '../log/ansi';
import { heightInLines, outputOf, type Outputs } from '../log/outputs';
import { outputNode } from './outputs';
import type { LogRow, LogRows } from '../log/rows';
import type { RunLog } from '../log/run_log';
import { rangesWith } from '../log/search';
import { type Span, spansOf } from '../log/sgr';

/** The options for drawing rows. */
export interface Drawing {
  /** sought text in lower case; empty for none */
  readonly query: string;
  readonly outputs: Outputs;
  onCellLine(line: number): void;
  /** show an over-long line whole */
  onMore(row: LogRow): void;
}

// a traceback's line of the cell: the program of a run is runs/<run>/cell.py
const CELL_LINE = /File "[^"]*\/runs\/(?:[^"]*\/)?cell\.py", (line (\d+))/;

/** Return seconds since the run began, as "0:02.1" or "1:02:03". */
function timeText(seconds: number): string {
  const tenths = Math.floor(seconds * 10 + 0.001);
  return tenths >= 36_000 ? clock(tenths / 10) : `${clock(tenths / 10)}.${tenths % 10}`;
}

/** Return the node of a row. `now`: it holds the current match. */
function rowNode(row: LogRow, now: boolean, drawing: Drawing): HTMLElement {
  const node = element('div', 'nbdist-line');
  const ofOneRank = row.ranks?.ranks.length === 1;
  if (ofOneRank) {
    node.style.setProperty('--nb-c', rankColour(row.ranks!.ranks[0]!));
  } else {
    node.classList.add('nbdist-shared');
  }
  const gutter = element('span', 'nbdist-gutter', row.ranks?.label ?? '');
  if (row.ranks && !ofOneRank) {
    gutter.title = logWords.ranks(row.ranks.label);
  }
  node.append(gutter, element('span', 'nbdist-time', Number.isNaN(row.time) ? '' : timeText(row.time)));
  node.append(
    row.kind === 'line'
      ? lineNode(row, now, drawing)
      : element('span', 'nbdist-text nbdist-lost', lostText(row)),
  );
  return node;
}

/** Return the text of a row that stands for missing lines; empty for a line. */
export function lostText({ kind, amount }: LogRow): string {
  return kind === 'line' ? '' : logWords[kind](amount);
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
  const output = row.text.includes('\x1b') ? outputOf(row.text) : null;
  if (output) {
    const drawn = outputNode(drawing.outputs, output, row.rank, plain(row.text));
    drawn.addEventListener('click', () => drawing.onMore(row));
    node.classList.add('nbdist-shows');
    node.style.height = `${heightInLines(output) * 20}px`;
    node.append(element('br'), drawn);
  }
  return node;
}

function moreNode(row: LogRow, rest: number, now: boolean, drawing: Drawing): HTMLElement {
  const text = logWords.more(rest);
  const button = buttonNode('nbdist-more', '', () => drawing.onMore(row));
  // the match is in the part that is not shown
  button.append(now ? element('mark', 'nbdist-now', text) : text);
  return button;
}

/** Append the first `length` characters of `line`, with colours, matches and links; return true when there was any
 * match. `now`: the first of them is the current one. */
function appendText(
  node: HTMLElement,
  line: string,
  length: number,
  now: boolean,
  drawing: Drawing,
): boolean {
  const text = plain(line).slice(0, length);
  const marks = rangesWith(drawing.query, text);
  const match = text.includes('cell.py"') ? CELL_LINE.exec(text) : null;
  const linkEnd = match ? match.index + match[0].length : -1;
  const linkStart = match ? linkEnd - match[1]!.length : -1;
  const edges = [...new Set([...marks.flat(), linkStart, linkEnd])];
  let link: HTMLElement | null = null;
  let start = 0;
  for (const span of spansOf(line)) {
    const end = Math.min(length, start + span.text.length);
    if (start === end) {
      break;
    }
    const inside = edges.filter(edge => edge > start && edge < end).sort((a, b) => a - b);
    for (const to of [...inside, end]) {
      const mark = marks.findIndex(range => range[0] <= start && start < range[1]);
      const piece = text.slice(start, to);
      const marked = mark < 0 ? piece : element('mark', now && mark === 0 ? 'nbdist-now' : '', piece);
      if (start === linkStart) {
        const number = Number(match![2]);
        link = buttonNode('nbdist-link nbdist-cell-link', '', () => drawing.onCellLine(number));
        link.title = link.ariaLabel = logWords.cellLine(number);
        node.append(link);
      }
      (start < linkEnd && link ? link : node).append(styled(span, marked));
      start = to;
    }
  }
  return marks.length > 0;
}

/** Return `content` in the colours of a span. */
function styled(span: Span, content: string | Node): string | Node {
  if (!span.classes && !span.colour && !span.background) {
    return content;
  }
  const node = element('span', span.classes);
  node.style.color = span.colour;
  node.style.backgroundColor = span.background;
  node.append(content);
  return node;
}

interface RowsOptions {
  readonly drawing: Drawing;
  /** another number when every row is to be drawn anew */
  readonly generation: number;
  /** the row of the current match, and the one that was asked for; -1 for none */
  readonly current: number;
  readonly pointed: number;
  /** the text where there are no rows; empty for none */
  readonly empty: string;
}

export class DrawnRows {
  private drawn = new Map<string, HTMLElement>();

  constructor(private readonly into: HTMLElement) {}

  /** Draw the rows from `first` to before `last`. */
  draw(rows: LogRows, first: number, last: number, options: RowsOptions): void {
    const drawn = new Map<string, HTMLElement>();
    for (let at = first; at < last; at++) {
      this.drawRow(rows, at, options, drawn);
    }
    this.drawn = drawn;
    const empty = rows.count || !options.empty ? [] : [element('div', 'nbdist-empty', options.empty)];
    putInto(this.into, [...drawn.values(), ...empty]);
  }

  forget(): void {
    this.drawn = new Map();
    this.into.replaceChildren();
  }

  private drawRow(rows: LogRows, at: number, options: RowsOptions, drawn: Map<string, HTMLElement>): void {
    const row = rows.row(at);
    const now = options.current === at;
    const pointed = options.pointed === at;
    const key = `${row.kind}${row.rank}:${row.line}`;
    const signature = `${row.ranks?.label}|${row.amount}|${options.generation}|${now}|${pointed}`;
    let node = this.drawn.get(key);
    if (node?.dataset['signature'] !== signature) {
      node = rowNode(row, now, options.drawing);
      node.classList.toggle('nbdist-pointed', pointed);
      node.dataset['signature'] = signature;
    }
    drawn.set(key, node!);
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

/** Draw the growing line of the rank `only` (null: of all); return true when there are any. */
export function drawLiveLines(
  into: HTMLElement,
  log: RunLog,
  only: number | null,
  drawing: Drawing,
): boolean {
  const lines = log.ranks
    .filter(rank => only === null || only === rank)
    .flatMap(rank =>
      log
        .rank(rank)
        .partial.split('\n')
        .filter(Boolean)
        .map(text => liveLine(rank, text, drawing)),
    );
  into.hidden = !lines.length;
  into.replaceChildren(...lines);
  return lines.length > 0;
}

function liveLine(rank: number, text: string, drawing: Drawing): HTMLElement {
  const node = element('div', 'nbdist-live-line');
  node.style.setProperty('--nb-c', rankColour(rank));
  const content = element('span', 'nbdist-text');
  appendText(content, text, plain(text).length, false, drawing);
  node.append(element('span', 'nbdist-gutter', String(rank)), element('span', 'nbdist-time'), content);
  return node;
}

export class WholeLine {
  /** the row that is shown; null for none */
  row: LogRow | null = null;

  constructor(
    private readonly node: HTMLElement,
    private readonly onClose: () => void,
  ) {}

  /** Draw the row; `generation` is another number when the same row is to be drawn anew. */
  draw(generation: number, drawing: Drawing): void {
    const { node, row } = this;
    const shown = row ? `${row.rank}:${row.line}|${generation}` : '';
    if (node.dataset['shown'] === shown) {
      return;
    }
    node.dataset['shown'] = shown;
    node.hidden = !row;
    node.replaceChildren();
    if (row) {
      const text = element('div', 'nbdist-whole-text');
      appendText(text, row.text, plain(row.text).length, false, drawing);
      const output = outputOf(row.text);
      if (output) {
        text.append(element('br'), outputNode(drawing.outputs, output, row.rank, plain(row.text)));
      }
      node.classList.toggle('nbdist-whole-output', output !== null);
      const close = buttonNode('nbdist-button nbdist-tool', '×', this.onClose);
      close.title = close.ariaLabel = logWords.close;
      node.append(text, close);
    }
  }
}
