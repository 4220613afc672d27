/** The keys of a panel while the focus is inside it, and the moves of the focus. */

/** A number is a rank. */
export type Action =
  number | 'search' | 'follow' | 'wrap' | 'all' | 'metrics' | 'cell' | 'first error' | 'leave';

const LETTERS: Readonly<Record<string, Action>> = {
  '/': 'search',
  f: 'follow',
  w: 'wrap',
  a: 'all',
  m: 'metrics',
  c: 'cell',
  e: 'first error',
  Escape: 'leave',
};

type Key = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'altKey' | 'metaKey' | 'target'>;

/** Return the action of a key; null for chords and for keys typed into a field. */
export function actionOf(event: Key): Action | null {
  if (chord(event) || typing(event.target)) {
    return null;
  }
  if (/^[0-9]$/.test(event.key)) {
    return Number(event.key);
  }
  return LETTERS[event.key.length === 1 ? event.key.toLowerCase() : event.key] ?? null;
}

/** Return true for a chord, which the notebook may have (save, the command palette). */
export function chord(event: Pick<KeyboardEvent, 'ctrlKey' | 'altKey' | 'metaKey'>): boolean {
  return event.ctrlKey || event.altKey || event.metaKey;
}

function typing(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches('input, textarea, select, [contenteditable]');
}

const STEPS: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Return the index an arrow key, Home or End leads to in a ring of `size`; null for another key. */
export function moved(key: string, at: number, size: number): number | null {
  if (key === 'Home' || key === 'End') {
    return key === 'Home' ? 0 : size - 1;
  }
  const step = STEPS[key];
  return step === undefined ? null : (at + step + size) % size;
}

/** Focus an element, found from `root`: some hosts put the panel into a shadow tree. */
export function focusById(root: HTMLElement | null, id: string): void {
  root?.querySelector<HTMLElement>(`[id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
}

/** Give the focus back to the notebook: to the cell that the panel is in. */
export function leave(root: HTMLElement | null): void {
  const cell = root?.closest<HTMLElement>('.jp-Cell, .jp-Notebook');
  if (cell && cell.tabIndex >= 0) {
    cell.focus({ preventScroll: true });
  } else if (document.activeElement instanceof HTMLElement) {
    document.activeElement.blur();
  }
}
