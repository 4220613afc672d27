/**
 * The panel in the place of what a notebook keeps: an output says where, in any number of views, which come
 * and go (a cell that is scrolled away, a second view of the notebook). What stands there comes back after it.
 */

/** milliseconds between two looks for places, and until the first of them is looked for at every frame */
const PERIOD = 400;
const HURRY = 3000;

interface Place {
  leave(): void;
}

/** Draw into every place there is, and will be; call what this returns to leave them as they were. */
export function takePlaces(
  find: () => readonly HTMLElement[],
  draw: (el: HTMLElement) => () => void,
): () => void {
  const places = new Map<HTMLElement, Place>();
  const look = (): void => {
    const found = find();
    for (const [element, place] of places) {
      if (!element.isConnected) {
        place.leave();
        places.delete(element);
      }
    }
    for (const element of found) {
      if (!places.has(element)) {
        places.set(element, take(element, draw));
      }
    }
  };
  look();
  const timer = setInterval(look, PERIOD);
  // what stands in the first place is not to be seen before the panel
  let frame = 0;
  const begun = performance.now();
  const hurry = (): void => {
    look();
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

function take(element: HTMLElement, draw: (el: HTMLElement) => () => void): Place {
  const kept = [...element.children].filter((child): child is HTMLElement => child instanceof HTMLElement);
  const hidden = kept.map(child => child.hidden);
  kept.forEach(child => (child.hidden = true));
  const drawn = document.createElement('div');
  element.append(drawn);
  const end = draw(drawn);
  return {
    leave: () => {
      end();
      drawn.remove();
      kept.forEach((child, at) => (child.hidden = hidden[at]!));
    },
  };
}
