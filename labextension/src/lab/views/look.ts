/** What views of this extension follow that is not theirs: the page's theme, the list of runs. */
import { useEffect, useState, useSyncExternalStore } from 'react';

import { themeOf, watchTheme, type Theme } from '../../theme';
import type { Runs } from '../runs';

/** The page's theme; `look` is another number each time its colours may have changed. */
export function useLook(): { theme: Theme; look: number } {
  const [seen, setSeen] = useState(() => ({ theme: themeOf(document), look: 0 }));
  useEffect(
    () => watchTheme(document, () => setSeen(last => ({ theme: themeOf(document), look: last.look + 1 }))),
    [],
  );
  return seen;
}

/** Draws again whenever the list changes. */
export function useRuns(runs: Runs): Runs {
  useSyncExternalStore(runs.subscribe, () => runs.version);
  return runs;
}

/** Unix seconds. */
export function unixNow(): number {
  return Date.now() / 1000;
}
