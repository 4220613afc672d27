/** Hooks that follow what changes by itself: the time, the width, the theme, data that comes too often. */
import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

import type { RunView } from '../protocol';

/** The page's seconds, by which is told when something came. */
export function pageNow(): number {
  return performance.now() / 1000;
}

/** The time in seconds, each second while `on`. */
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

/** How long a run goes on: it does so while the kernel is silent. `viewAt` is when its view came. */
export function useElapsed(view: RunView, viewAt: number): number {
  const seconds = useSeconds(view.live);
  return view.elapsed + (view.live ? Math.max(0, seconds - viewAt) : 0);
}

/** The latest value, but a new one only once in `period` milliseconds. */
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

/** How much room there is across: below 560, 760, 1600 pixels, or more. */
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

/** What the front ends write into a page that is dark, and into one that is light. */
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

/** The page's theme; `themeVersion` is another number each time its colours may have changed. */
export function useTheme(): { theme: Theme; themeVersion: number } {
  const [seen, setSeen] = useState(() => ({ theme: pageTheme(), themeVersion: 0 }));
  useEffect(
    () => watchTheme(() => setSeen(last => ({ theme: pageTheme(), themeVersion: last.themeVersion + 1 }))),
    [],
  );
  return seen;
}

/** By what the page says; where it says nothing, by what the system does. */
function pageTheme(): Theme {
  if (document.querySelector(DARK)) {
    return 'dark';
  }
  if (document.querySelector(LIGHT)) {
    return 'light';
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** Calls `changed` when the page may look different from now on; returns what ends that. */
function watchTheme(changed: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const refresh = (): void => {
    changed();
    clearTimeout(timer);
    timer = setTimeout(changed, SETTLED);
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
