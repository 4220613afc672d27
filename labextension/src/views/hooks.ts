/** Hooks that follow what changes by itself: the time, the width, the theme, data that comes too often. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

import { pageNow } from '../model/run_model';
import type { RunView } from '../protocol/run';

/** Return the time in seconds, each second while `on`. */
export function useSeconds(on: boolean, now = pageNow): number {
  const [seconds, setSeconds] = useState(now);
  useEffect(() => {
    if (!on) {
      return;
    }
    const timer = setInterval(() => setSeconds(now()), 1000);
    return () => clearInterval(timer);
  }, [now, on]);
  return seconds;
}

/** Return the seconds a run has been going on, also while the kernel is silent. `viewAt`: the arrival of its view. */
export function useElapsed(view: RunView, viewAt: number): number {
  const seconds = useSeconds(view.live);
  return view.elapsed + (view.live ? Math.max(0, seconds - viewAt) : 0);
}

/** Return the latest value, but a new one only once in `period` milliseconds. */
export function useThrottled<Value>(value: Value, period: number): Value {
  const [shown, setShown] = useState(value);
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  }, [value]);
  useEffect(() => {
    const timer = setInterval(() => setShown(latest.current), period);
    return () => clearInterval(timer);
  }, [period]);
  return shown;
}

export type Size = 'narrow' | 'medium' | 'wide' | 'huge';

/** Return the width class: below 560, 760, 1600 pixels, or more. */
export function useSize(element: RefObject<HTMLElement | null>): Size {
  const [size, setSize] = useState<Size>('wide');
  useEffect(() => {
    const observed = element.current;
    if (!observed) {
      return;
    }
    const observer = new ResizeObserver(([entry]) => {
      const width = entry!.contentRect.width;
      // an element that is not shown has no width, and says nothing
      if (width > 0) {
        setSize(width < 560 ? 'narrow' : width < 760 ? 'medium' : width < 1600 ? 'wide' : 'huge');
      }
    });
    observer.observe(observed);
    return () => observer.disconnect();
  }, [element]);
  return size;
}

/** Return a function that runs its argument right after the next drawing: an element may be hidden until then. */
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

/** Selectors for attributes that front ends set on a dark page, and on a light one. */
const DARK = [
  '[data-jp-theme-light="false"]',
  '.vscode-dark',
  '.vscode-high-contrast:not(.vscode-high-contrast-light)',
  'html[theme="dark"]',
].join();
const LIGHT = [
  '[data-jp-theme-light="true"]',
  '.vscode-light',
  '.vscode-high-contrast-light',
  'html[theme="light"]',
].join();
/** milliseconds: a theme's rules come a moment after the page says its name */
const SETTLED = 400;

type Theme = 'light' | 'dark';

/** Return the page's theme; `themeVersion` is another number each time its colours may have changed. */
export function useTheme(): { theme: Theme; themeVersion: number } {
  const [seen, setSeen] = useState(() => ({ theme: pageTheme(), themeVersion: 0 }));
  useEffect(
    () => watchTheme(() => setSeen(last => ({ theme: pageTheme(), themeVersion: last.themeVersion + 1 }))),
    [],
  );
  return seen;
}

/** Return the theme of the page; where it sets none, of the system. */
function pageTheme(): Theme {
  if (document.querySelector(DARK)) {
    return 'dark';
  }
  if (document.querySelector(LIGHT)) {
    return 'light';
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** properties that front ends set */
const COLOURS = [
  '--jp-layout-color0',
  '--jp-ui-font-color1',
  '--jp-brand-color1',
  '--vscode-editor-background',
];

/** Return what the page looks like, as a text. */
function pageColours(): string {
  const body = getComputedStyle(document.body);
  const set = COLOURS.map(name => body.getPropertyValue(name));
  return [pageTheme(), body.color, body.backgroundColor, ...set].join();
}

/** Call `changed` when the page's colours may have changed; return the function that ends this. */
function watchTheme(changed: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let seen = pageColours();
  // other classes come and go on the page, and what is drawn anew loses its zoom
  const compare = (): void => {
    const before = seen;
    seen = pageColours();
    if (seen !== before) {
      changed();
    }
  };
  const refresh = (): void => {
    compare();
    clearTimeout(timer);
    timer = setTimeout(compare, SETTLED);
  };
  const attributes = new MutationObserver(refresh);
  for (const node of [document.documentElement, document.body]) {
    attributes.observe(node, {
      attributeFilter: ['class', 'theme', 'data-jp-theme-light', 'data-jp-theme-name'],
    });
  }
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', refresh);
  return () => {
    clearTimeout(timer);
    attributes.disconnect();
    system.removeEventListener('change', refresh);
  };
}
