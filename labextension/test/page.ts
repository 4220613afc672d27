/** Globals of every browser that jsdom lacks. */
import { TextDecoder, TextEncoder } from 'node:util';

class NoSizes {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}

Object.assign(globalThis, {
  TextDecoder,
  TextEncoder,
  ResizeObserver: NoSizes,
  CSS: { escape: (text: string) => text },
  matchMedia: () => new EventTarget(),
  DragEvent: class extends Event {},
  requestIdleCallback: (act: () => void) => setTimeout(act),
});

// jsdom draws nothing, and says so at length for each canvas; some tests run without it
if ('HTMLCanvasElement' in globalThis) {
  HTMLCanvasElement.prototype.getContext = () => null;
}

/** Choose an option as a browser does: testing-library's `change` is an `input` event. */
export function chooseIn(list: HTMLElement, option: string): void {
  (list as HTMLSelectElement).value = option;
  list.dispatchEvent(new Event('change', { bubbles: true }));
}
