/** The places in a notebook where a panel is drawn over the output that was kept. */
import { element } from '../page/nodes';

/** The places of all panels, looked for together: a page may have ten panels that have ended. */
let places: { at: number; found: readonly HTMLElement[] } = { at: -Infinity, found: [] };

export function placesIn(fresh: boolean): readonly HTMLElement[] {
  const now = performance.now();
  if (fresh || now - places.at >= POLL_MS / 2) {
    places = { at: now, found: [...document.querySelectorAll<HTMLElement>('[data-nbdist-panel]')] };
  }
  return places.found;
}

/** milliseconds between two looks for places, and until the first of them is looked for at every frame */
export const POLL_MS = 400;
const HURRY = 3000;
interface MountPoint {
  leave(): void;
}

/** Draw in the place of what a notebook keeps: an output says where, in any number of views, which come and go (a
 * cell that is scrolled away, a second view of the notebook). What stands there comes back after it. Draws into
 * every place there is, and will be; call what this returns to leave them as they were. */
export function takePlaces(
  find: (fresh: boolean) => readonly HTMLElement[],
  draw: (el: HTMLElement) => () => void,
): () => void {
  const places = new Map<HTMLElement, MountPoint>();
  const refresh = (fresh = false): void => {
    const elements = find(fresh);
    for (const [element, place] of places) {
      if (!element.isConnected) {
        place.leave();
        places.delete(element);
      }
    }
    for (const element of elements) {
      if (!places.has(element)) {
        places.set(element, take(element, draw));
      }
    }
  };
  refresh(true);
  const timer = setInterval(refresh, POLL_MS);
  // what stands in the first place is not to be seen before the panel
  let frame = 0;
  const begun = performance.now();
  const hurry = (): void => {
    refresh(true);
    if (!places.size && performance.now() - begun < HURRY) {
      frame = requestAnimationFrame(hurry);
    }
  };
  frame = requestAnimationFrame(hurry);
  return () => {
    clearInterval(timer);
    cancelAnimationFrame(frame);
    places.forEach(place => place.leave());
  };
}

function take(place: HTMLElement, draw: (el: HTMLElement) => () => void): MountPoint {
  const kept = [...place.children].filter((child): child is HTMLElement => child instanceof HTMLElement);
  const hidden = kept.map(child => child.hidden);
  kept.forEach(child => (child.hidden = true));
  const drawn = element('div');
  place.append(drawn);
  const end = draw(drawn);
  return {
    leave: () => {
      end();
      drawn.remove();
      kept.forEach((child, at) => (child.hidden = hidden[at]!));
    },
  };
}
