/** The keys of a panel, and the moves of the focus. */

/** Return true for a chord, which the notebook may have (save, the command palette). */
export function chord(event: Pick<KeyboardEvent, 'ctrlKey' | 'altKey' | 'metaKey'>): boolean {
  return event.ctrlKey || event.altKey || event.metaKey;
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

/** Give the focus back to the notebook: to the cell that the panel is in. */
export function leave(root: HTMLElement | null): void {
  const cell = root?.closest<HTMLElement>('.jp-Cell, .jp-Notebook');
  if (cell && cell.tabIndex >= 0) {
    cell.focus({ preventScroll: true });
  } else if (document.activeElement instanceof HTMLElement) {
    document.activeElement.blur();
  }
}
