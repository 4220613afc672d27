/** Hooks that follow what changes by itself: the time, the width, data that comes too often. */
import { useEffect, useRef, useState, type RefObject } from 'react';

/** The time in seconds, each second while `on`. */
export function useSeconds(now: () => number, on: boolean): number {
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

/** The latest value, but a new one only once in `period` milliseconds. */
export function useUnhurried<Value>(value: Value, period: number): Value {
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
