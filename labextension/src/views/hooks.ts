/** Hooks that follow what changes by itself: the time, the width, the theme, data that comes too often. */
import {
  type RefObject,
  startTransition,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';

import { messageOf } from '../page/nodes';
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

/** Return the value as it was before the last `delay` milliseconds. */
export function useDelayed<Value>(value: Value, delay: number): Value {
  const [delayed, setDelayed] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setDelayed(value), delay);
    return () => clearTimeout(timer);
  }, [value, delay]);
  return delayed;
}

/** Return the latest value, null at first. What it draws may be large: React draws it in turns, and the page answers
 * in between. */
export function useInTurns<Value>(value: Value): Value | null {
  const [shown, setShown] = useState<Value | null>(null);
  useLayoutEffect(() => startTransition(() => setShown(() => value)), [value]);
  return shown;
}

/** Return the last answer to a question, why it was not answered the last time, and true while it is asked. It is asked
 * again when it is another function, or for the next `time`. */
export function useAnswer<Answer>(
  ask: () => Promise<Answer>,
  time = 0,
): { answer: Answer | null; problem: string; asking: boolean } {
  const [last, setLast] = useState({ answer: null as Answer | null, problem: '', ask, time: -1 });
  useEffect(() => {
    let wanted = true;
    const take = (answer: Answer | null, problem: string): void =>
      setLast(before =>
        wanted
          ? { answer: answer ?? (before.ask === ask ? before.answer : null), problem, ask, time }
          : before,
      );
    ask().then(
      answer => take(answer, ''),
      (problem: unknown) => take(null, messageOf(problem)),
    );
    return () => {
      wanted = false;
    };
  }, [ask, time]);
  const { answer, problem } = last.ask === ask ? last : { answer: null, problem: '' };
  return { answer, problem, asking: last.ask !== ask || last.time !== time };
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
export function useAfterDrawing(): (act: () => void) => void {
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

/** Return the page's theme; `themeVersion` is another number each time its colours have changed. */
export function useTheme(): { theme: Theme; themeVersion: number } {
  const [seen, setSeen] = useState(() => ({ theme: pageTheme(), themeVersion: 0, colours: pageColours() }));
  useEffect(() => {
    // other classes come and go on the page, and what is drawn anew loses its zoom
    const compare = (): void =>
      setSeen(last => {
        const colours = pageColours();
        const next = { theme: pageTheme(), themeVersion: last.themeVersion + 1, colours };
        return colours === last.colours ? last : next;
      });
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = (): void => {
      compare();
      clearTimeout(timer);
      timer = setTimeout(compare, SETTLED);
    };
    const attributes = new MutationObserver(refresh);
    const attributeFilter = ['class', 'theme', 'data-jp-theme-light', 'data-jp-theme-name'];
    attributes.observe(document.documentElement, { attributeFilter });
    attributes.observe(document.body, { attributeFilter });
    const system = matchMedia('(prefers-color-scheme: dark)');
    system.addEventListener('change', refresh);
    return () => {
      clearTimeout(timer);
      attributes.disconnect();
      system.removeEventListener('change', refresh);
    };
  }, []);
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
const COLOURS = ['layout-color0', 'ui-font-color1', 'brand-color1'].map(name => `--jp-${name}`);

/** Return what the page looks like, as a text. */
function pageColours(): string {
  const body = getComputedStyle(document.body);
  const set = [...COLOURS, '--vscode-editor-background'].map(name => body.getPropertyValue(name));
  return [pageTheme(), body.color, body.backgroundColor, ...set].join();
}
