/** The lines that still change, at the foot of the log: of most ranks one, of nested bars several. */
import { plain } from './line_text';
import { appendText, element, type Drawing } from './row_nodes';
import type { RunLog } from './run_log';

/** `only`: the rank whose line is shown, null for all. Whether there are any. */
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
        .map(text => ({ rank, text })),
    )
    .filter(({ text }) => text)
    .map(({ rank, text }) => liveLine(rank, text, drawing));
  into.hidden = !lines.length;
  into.replaceChildren(...lines);
  return lines.length > 0;
}

function liveLine(rank: number, text: string, drawing: Drawing): HTMLElement {
  const node = element('div', 'nbdist-live-line');
  node.style.setProperty('--nb-c', `var(--nb-r${rank % 8})`);
  const content = element('span', 'nbdist-text');
  appendText(content, text, plain(text).length, false, drawing);
  node.append(element('span', 'nbdist-gutter', String(rank)), element('span', 'nbdist-time'), content);
  return node;
}
