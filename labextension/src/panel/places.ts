/** The places in a notebook where a panel is drawn over the output that was kept. */
import { hideContent } from './draw';

/** Draw over what a notebook keeps of the widget `id`: an output says where, in any number of views, which come and
 * go (a cell that is scrolled away, a second view of the notebook). Call what this returns to leave them as they
 * were. */
export function takePlaces(id: string, draw: (place: HTMLElement) => () => void): () => void {
  const taken = new Map<HTMLElement, () => void>();
  /** nodes that lost or gained children since the last frame */
  const changed = new Set<ParentNode>([document]);
  const refresh = (): void => {
    for (const [place, leave] of taken) {
      if (!place.isConnected) {
        leave();
        taken.delete(place);
      }
    }
    const places = [...changed].flatMap(node => [
      ...node.querySelectorAll<HTMLElement>('[data-nbdist-panel]'),
    ]);
    changed.clear();
    for (const place of places) {
      if (place.dataset['nbdistPanel'] === id && !taken.has(place)) {
        const show = hideContent(place);
        const end = draw(place);
        taken.set(place, () => {
          end();
          show();
        });
      }
    }
  };
  refresh();
  const observer = new MutationObserver(records => {
    // Before it is seen, but not at once: the panel that is to move may still be in the output that goes. A page that
    // is hidden has no frames.
    if (!changed.size) {
      (document.hidden ? setTimeout : requestAnimationFrame)(refresh);
    }
    records.forEach(({ target }) => changed.add(target as Element));
  });
  observer.observe(document, { childList: true, subtree: true });
  return () => {
    observer.disconnect();
    changed.clear();
    taken.forEach(leave => leave());
    taken.clear();
  };
}
