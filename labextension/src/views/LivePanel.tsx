/** Joins a run's model to the panel: whatever changes by itself enters the views here. */
import { useEffect, useMemo, useState, useSyncExternalStore, type ReactElement } from 'react';
import { logWords } from '../log/words';
import type { RunModel } from '../model';
import type { PageAction } from '../page_actions';
import type { BoardAnswer } from '../protocol';
import { themeOf, watchTheme } from '../theme';
import { WORDS, type Language } from '../words';
import { Panel } from './Panel';

/** What the panel asks of the place it is shown in. */
export interface Host {
  language: Language;
  foreground(): boolean;
  now: () => number;
  stop: () => Promise<boolean>;
  board: () => Promise<BoardAnswer | null>;
  /** take the stacks again; interrupt a rank: for a kernel that no cell keeps busy */
  stacks: () => void;
  interrupt: (rank: number) => void;
  /** what the page does for the panel, where it has nbdist's extension */
  act?: ((action: PageAction, from: Element) => void) | undefined;
}

const UNHEARD = { again: null, interrupt: null };

export function LivePanel({ run, host }: { run: RunModel; host: Host }): ReactElement {
  const version = useSyncExternalStore(run.subscribe, () => run.version);
  const [{ theme, look }, setLook] = useState(() => ({ theme: themeOf(document), look: 0 }));
  useEffect(
    () => watchTheme(document, () => setLook(last => ({ theme: themeOf(document), look: last.look + 1 }))),
    [],
  );
  const errors = useErrors(run, version);
  const foreground = host.foreground();
  const actions = useMemo(
    // a cell that waits for its run keeps the kernel from hearing of it
    () => (foreground ? UNHEARD : { again: host.stacks, interrupt: host.interrupt }),
    [foreground, host],
  );
  return (
    <Panel
      view={run.view}
      viewAt={run.viewAt}
      heardAt={run.heardAt}
      now={host.now}
      cell={run.cell}
      charts={run.charts}
      utilisation={run.utilisation}
      waits={run.waits}
      log={run.log}
      errors={errors}
      foreground={foreground}
      theme={theme}
      look={look}
      words={WORDS[host.language]}
      logWords={logWords[host.language]}
      onStop={host.stop}
      onBoard={host.board}
      onAct={host.act}
      stall={actions}
    />
  );
}

/** Error lines by rank; the same object while no count changed. */
function useErrors(run: RunModel, version: number): ReadonlyMap<number, number> {
  const text = useMemo(() => {
    const counts = run.view?.ranks.map(({ rank }) => [rank, run.log.errors(rank)] as const) ?? [];
    return JSON.stringify(counts.filter(([, count]) => count > 0));
    // the version stands for all that the log holds
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [run, version]);
  return useMemo(() => new Map(JSON.parse(text) as [number, number][]), [text]);
}
