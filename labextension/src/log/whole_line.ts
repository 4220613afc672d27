/** An over-long line, whole, below the log. */
import { plain } from './line_text';
import { appendText, element, type Drawing } from './row_nodes';
import type { LogRow } from './rows';

export class WholeLine {
  /** the row that is shown; null for none */
  row: LogRow | null = null;

  constructor(
    private readonly node: HTMLElement,
    private readonly onClose: () => void,
  ) {}

  /** `generation` is another number when the same row is to be drawn anew. */
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
      node.append(text, this.closeButton(drawing.words.close));
    }
  }

  private closeButton(label: string): HTMLElement {
    const close = element('button', 'nbdist-tool', '×') as HTMLButtonElement;
    close.type = 'button';
    close.title = label;
    close.setAttribute('aria-label', label);
    close.addEventListener('click', this.onClose);
    return close;
  }
}
