/** The links and buttons in the outputs of a cell. */
import { type PageRequest, askPage } from '../../page/actions';
import { buttonNode } from '../../page/nodes';
import { words as panelWords } from '../../words/panel';

const NAMED = /\bline (\d+) of the cell\b|\bcell line (\d+)|单元格?第 (\d+) 行/i;

/** Return the line of the cell that a clicked part of an output names: a link of the panel, or words of a summary or an
 * error. */
export function linkedLine(clicked: Element): number | null {
  const link = clicked.closest<HTMLElement>('[data-cell-line]');
  if (link) {
    return Number(link.dataset['cellLine']);
  }
  const code = clicked.closest('.nbdist-summary :not(.n-other) > .n-at');
  if (code) {
    return numberIn(/^\W*(\d+)/.exec(code.textContent ?? ''));
  }
  const button = clicked.closest('.nbdist .nbdist-cell-link, .nbdist .nbdist-failure button');
  if (button) {
    const name = button.getAttribute('title') ?? button.textContent ?? '';
    return numberIn(NAMED.exec(name));
  }
  const outcome = clicked.closest('.nbdist-summary b, .nbdist-summary .n-headline');
  return outcome ? numberIn(NAMED.exec(outcome.textContent ?? '')) : null;
}

/** Make links of what names a line of the cell in the text of an error. */
export function linkLines(error: Element): void {
  const texts = document.createTreeWalker(error, NodeFilter.SHOW_TEXT);
  const matches: [Text, RegExpExecArray][] = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const match = NAMED.exec(node.nodeValue ?? '');
    if (match && !node.parentElement?.closest('[data-cell-line]')) {
      matches.push([node as Text, match]);
    }
  }
  for (const [node, match] of matches) {
    const named = node.splitText(match.index);
    const rest = named.splitText(match[0].length);
    const line = numberIn(match)!;
    const link = buttonNode('nbdist-error-link', '');
    link.dataset['cellLine'] = String(line);
    link.title = panelWords.toCell(line);
    named.replaceWith(link);
    link.append(named);
    // a text may name several lines
    if (NAMED.test(rest.nodeValue ?? '')) {
      linkLines(error);
    }
  }
}

function numberIn(match: RegExpExecArray | null): number | null {
  const number = match?.slice(1).find(Boolean);
  return number === undefined ? null : Number(number);
}

/** The place of a button that writes the line which mends a cell, and runs it. */
export const MENDED = '.nbdist-mended[data-line]';

export function addMendingButton(place: HTMLElement, run: (line: string) => void): void {
  if (!place.firstChild) {
    const { label = '', line = '' } = place.dataset;
    place.append(buttonNode('nbdist-summary-button', label, () => run(line)));
  }
}

/** Summaries of runs whose page may act on them: one that is not trusted has lost its run. */
export const SUMMARY = '.nbdist-summary[data-run]';

export function addButtons(summary: HTMLElement): void {
  const foot = summary.querySelector<HTMLElement>('.n-foot');
  const full = foot?.querySelector<HTMLElement>('.n-full');
  if (!full || foot!.querySelector('button')) {
    return;
  }
  const runId = summary.dataset['run']!;
  const label = summary.dataset['label'] ?? runId;
  const button = (text: string, request: Pick<PageRequest, 'action' | 'tab'>): HTMLElement => {
    const made = buttonNode('nbdist-summary-button', text, () =>
      askPage({ ...request, runId, label, from: made }),
    );
    return made;
  };
  full.hidden = true;
  full.after(
    button(panelWords.logs, { action: 'open', tab: 'all' }),
    button(panelWords.charts, { action: 'open', tab: 'metrics' }),
    button(panelWords.dashboard, { action: 'open' }),
    button(panelWords.runAgain, { action: 'again' }),
  );
}
