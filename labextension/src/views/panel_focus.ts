/** Where the focus of the panel goes: to what the next drawing brings, and back to the notebook. */
import { useCallback, useLayoutEffect, useRef } from 'react';

/** What is given is done right after the next drawing: what is to get the focus may be hidden until then. */
export function useAfterDrawing(): (act: (() => void) | null) => void {
  const later = useRef<(() => void) | null>(null);
  // before anything else happens: later, it would take the focus from where the next key has put it
  useLayoutEffect(() => {
    const act = later.current;
    later.current = null;
    act?.();
  });
  return useCallback(act => void (later.current = act), []);
}

/** In the panel alone: some hosts put it where the page's own search does not come. */
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
