/** The places in a notebook where a panel is drawn over the output that was kept. */
import { hideContent } from './draw';

/** Draw over what a notebook keeps of the widget `id`: an output says where, in any number of views, which come and
 * go (a cell that is scrolled away, a second view of the notebook). Call what this returns to leave them as they
 * were. */
export function takePlaces(id: string, draw: (place: HTMLElement) => () => void): () => void {
  const taken = new Map<HTMLElement, () => void>();
  const refresh = (changed: Iterable<ParentNode>): void => {
    for (const [place, leave] of taken) {
      if (!place.isConnected) {
        leave();
        taken.delete(place);
      }
    }
    for (const parent of changed) {
      for (const place of parent.querySelectorAll<HTMLElement>('[data-nbdist-panel]')) {
        if (place.dataset['nbdistPanel'] === id && !taken.has(place)) {
          const show = hideContent(place);
          const end = draw(place);
          taken.set(place, () => {
            end();
            show();
          });
        }
      }
    }
  };
  refresh([document]);
  // before the next frame: what stands in a place is not to be seen before the panel
  const observer = new MutationObserver(records =>
    refresh(new Set(records.map(({ target }) => target as Element))),
  );
  observer.observe(document, { childList: true, subtree: true });
  return () => {
    observer.disconnect();
    taken.forEach(leave => leave());
  };
}
