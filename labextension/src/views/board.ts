/** Opening VisualDL in another tab, and what there is to say about it. */
import type { BoardAnswer } from '../protocol';
import type { Words } from '../words';
import type { Notice } from './Notes';

export function showBoard(answer: BoardAnswer | null, label: string, words: Words): Notice {
  if (answer === null) {
    return { text: words.boardLater(label) };
  }
  const url = webAddress(answer.url);
  if (answer.problem || url === null) {
    return { text: words.boardProblem(answer.problem || answer.url) };
  }
  const opened = window.open(url, '_blank');
  if (opened === null) {
    return { text: words.boardBlocked, link: url };
  }
  opened.opener = null;
  return { text: words.boardAt, brief: true };
}

/** The whole address, null for what is no page (`javascript:`). */
function webAddress(url: string): string | null {
  try {
    const whole = new URL(url, location.href);
    return url && /^https?:$/.test(whole.protocol) ? whole.href : null;
  } catch {
    return null;
  }
}
