/** Buttons below the summary that a notebook keeps, in the place of the command that it names there. */
import { askPage, type Asked } from '../page_actions';
import type { Words } from '../words';

/** Summaries of runs whose page may act on them: one that is not trusted has lost its run. */
export const SUMMARY = '.nbdist-summary[data-run]';

export function addButtons(summary: HTMLElement, words: Words): void {
  const foot = summary.querySelector<HTMLElement>('.n-foot');
  const full = foot?.querySelector<HTMLElement>('.n-full');
  if (!full || foot!.querySelector('button')) {
    return;
  }
  const runId = summary.dataset['run']!;
  const label = summary.dataset['label'] ?? runId;
  const button = (text: string, asked: Pick<Asked, 'action' | 'tab'>): HTMLElement => {
    const made = document.createElement('button');
    made.type = 'button';
    made.className = 'nbdist-summary-button';
    made.textContent = text;
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
