/** What every browser has and jsdom lacks. */
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
});
