/** What nbdist adds to outputs of a notebook: links to lines of the cell, buttons below a summary. */
import { askPage, element, type Asked } from '../page';
import { pageWords } from '../words';

const NAMED = /\bline (\d+) of the cell\b|\bcell line (\d+)|单元格第 (\d+) 行/i;

/** Which line of the cell something in an output is about: links of the panel, and what a summary or an error says
 * in words. */
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
    const said = button.getAttribute('title') ?? button.textContent ?? '';
    return numberIn(NAMED.exec(said));
  }
  const outcome = clicked.closest('.nbdist-summary b, .nbdist-summary .n-headline');
  return outcome ? numberIn(NAMED.exec(outcome.textContent ?? '')) : null;
}

/** Makes links of what names a line of the cell in the text of an error. */
export function linkLines(error: Element): void {
  const texts = document.createTreeWalker(error, NodeFilter.SHOW_TEXT);
  const found: [Text, RegExpExecArray][] = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const match = NAMED.exec(node.nodeValue ?? '');
    if (match && !node.parentElement?.closest('[data-cell-line]')) {
      found.push([node as Text, match]);
    }
  }
  for (const [node, match] of found) {
    const named = node.splitText(match.index);
    const rest = named.splitText(match[0].length);
    const line = numberIn(match)!;
    const link = element('button', 'nbdist-error-link') as HTMLButtonElement;
    link.type = 'button';
    link.dataset['cellLine'] = String(line);
    link.title = pageWords().toCell(line);
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

/** Summaries of runs whose page may act on them: one that is not trusted has lost its run. */
export const SUMMARY = '.nbdist-summary[data-run]';

export function addButtons(summary: HTMLElement): void {
  const words = pageWords();
  const foot = summary.querySelector<HTMLElement>('.n-foot');
  const full = foot?.querySelector<HTMLElement>('.n-full');
  if (!full || foot!.querySelector('button')) {
    return;
  }
  const runId = summary.dataset['run']!;
  const label = summary.dataset['label'] ?? runId;
  const button = (text: string, asked: Pick<Asked, 'action' | 'tab'>): HTMLElement => {
    const made = element('button', 'nbdist-summary-button', text) as HTMLButtonElement;
    made.type = 'button';
    made.addEventListener('click', () => askPage({ ...asked, runId, label, from: made }));
    return made;
  };
  full.hidden = true;
  full.after(
    button(words.logs, { action: 'open', tab: 'all' }),
    button(words.charts, { action: 'open', tab: 'metrics' }),
    button(words.dashboard, { action: 'open' }),
    button(words.runAgain, { action: 'again' }),
  );
}
