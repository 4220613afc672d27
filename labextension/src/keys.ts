/** Which key does what while the focus is inside a run, and where it puts the focus. */

export type Action =
  | { kind: 'search' | 'follow' | 'wrap' | 'all' | 'metrics' | 'cell' | 'first error' | 'leave' }
  | { kind: 'rank'; rank: number };

const LETTERS: Readonly<Record<string, Action>> = {
  '/': { kind: 'search' },
  f: { kind: 'follow' },
  w: { kind: 'wrap' },
  a: { kind: 'all' },
  m: { kind: 'metrics' },
  c: { kind: 'cell' },
  e: { kind: 'first error' },
  Escape: { kind: 'leave' },
};

type Key = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'altKey' | 'metaKey' | 'target'>;

/** What the key asks for, or null: what is typed into a field, and chords, are not for us. */
export function actionOf(event: Key): Action | null {
  if (chord(event) || typing(event.target)) {
    return null;
  }
  if (/^[0-9]$/.test(event.key)) {
    return { kind: 'rank', rank: Number(event.key) };
  }
  return LETTERS[event.key.length === 1 ? event.key.toLowerCase() : event.key] ?? null;
}

/** Whether the notebook may have the key: it keeps its chords (save, the command palette). */
export function chord(event: Pick<KeyboardEvent, 'ctrlKey' | 'altKey' | 'metaKey'>): boolean {
  return event.ctrlKey || event.altKey || event.metaKey;
}

function typing(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches('input, textarea, select, [contenteditable]');
}

const STEPS: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Where an arrow key, Home or End leads in a row of `size`, which is a ring; null for another key. */
export function moved(key: string, at: number, size: number): number | null {
  if (key === 'Home' || key === 'End') {
    return key === 'Home' ? 0 : size - 1;
  }
  const step = STEPS[key];
  return step === undefined ? null : (at + step + size) % size;
}

/** In `root` alone: some hosts put the panel where the page's own search does not come. */
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
