/** The rows that can be seen, as nodes: those that did not change stay, and with them what is selected. */
import { element, rowNode, type Drawing } from './row_nodes';
import type { LogRows } from './rows';

export interface RowsLook {
  readonly drawing: Drawing;
  /** another number when every row is to be drawn anew */
  readonly generation: number;
  /** the row of the current match, and the one that was asked for; -1 for none */
  readonly current: number;
  readonly pointed: number;
  /** what is said when there are no rows; nothing where it is empty */
  readonly empty: string;
}

interface Drawn {
  readonly node: HTMLElement;
  readonly signature: string;
}

export class DrawnRows {
  private drawn = new Map<string, Drawn>();

  constructor(private readonly into: HTMLElement) {}

  /** Draw the rows from `first` to before `last`. */
  draw(rows: LogRows, first: number, last: number, look: RowsLook): void {
    const drawn = new Map<string, Drawn>();
    for (let at = first; at < last; at++) {
      this.drawRow(rows, at, look, drawn);
    }
    this.drawn = drawn;
    const nodes = [...drawn.values()].map(({ node }) => node);
    putInto(this.into, rows.count || !look.empty ? nodes : [element('div', 'nbdist-empty', look.empty)]);
  }

  forget(): void {
    this.drawn = new Map();
    this.into.replaceChildren();
  }

  private drawRow(rows: LogRows, at: number, look: RowsLook, drawn: Map<string, Drawn>): void {
    const row = rows.row(at);
    const now = look.current === at;
    const pointed = look.pointed === at;
    const key = `${row.kind}${row.rank}:${row.line}`;
    const signature = `${row.ranks?.id}|${row.amount}|${look.generation}|${now}|${pointed}`;
    let one = this.drawn.get(key);
    if (one?.signature !== signature) {
      const node = rowNode(row, now, look.drawing);
      node.classList.toggle('nbdist-pointed', pointed);
      one = { node, signature };
    }
    drawn.set(key, one);
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
