/** A run below its cell: the page of a run, a note when the kernel is silent, and a mark beside the prompt. */
import { type ReactElement, type RefObject, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';

import type { RunModel } from '../model/run_model';
import { doneText } from '../model/formats';
import { element } from '../page/nodes';
import { type PageAction } from '../page/actions';
import type { BoardAnswer, RunView } from '../protocol/run';
import { pageWords } from '../words/panel';
import { stateWord } from './Header';
import { openBoard, Silence, useSilence } from './Notes';
import { type RunHost, RunPage } from './RunPage';

/** The requests of a panel to the sender of its run. */
export interface PanelSource {
  /** true when the cell waits for its run, which keeps the kernel from hearing of anything */
  foreground: () => boolean;
  /** false when the reader has to interrupt the cell by hand */
  stop: () => Promise<boolean>;
  /** true when the reader has asked for the run after its end */
  opened?: () => boolean;
  /** address of VisualDL, null when the kernel is too busy to answer */
  board: () => Promise<BoardAnswer | null>;
  /** the run as one text, null where it cannot be had */
  report?: (() => Promise<string | null>) | undefined;
  stacks: () => void;
  interrupt: (rank: number) => void;
  /** the line with which a cell would start the run again */
  line?: (() => string) | undefined;
  act?: ((action: PageAction, from: Element) => void) | undefined;
}

interface PanelProps {
  run: RunModel;
  source: PanelSource;
  /** gets the panel's element */
  root?: RefObject<HTMLElement | null>;
  onShown?: (rank: number | null) => void;
  /** the connection, where a server tells of the run and not the kernel: while it is open, no news is good news */
  served?: { open: boolean; notes: ReactElement };
}

export function Panel({ run, source, root, onShown, served }: PanelProps): ReactElement {
  const own = useRef<HTMLElement>(null);
  const panel = root ?? own;
  useSyncExternalStore(run.subscribe, () => run.version);
  const { view, viewAt, heardAt } = run;
  usePromptMark(panel, view);
  const foreground = source.foreground();
  const silent = useSilence(run) && !served?.open;
  const since = view ? view.elapsed + Math.max(0, heardAt - viewAt) : 0;
  const host = useMemo<RunHost>(
    () => ({
      stop: async () =>
        (await source.stop()) ? null : { text: pageWords().cannotStop(run.view?.label ?? ''), live: true },
      board: ({ notify }) => void openBoard(source.board(), run.view?.label ?? '', notify),
      again: foreground ? null : source.stacks,
      interrupt: foreground ? null : source.interrupt,
      act: source.act,
      report: source.report,
      line: source.line,
    }),
    [run, source, foreground],
  );
  return (
    <RunPage
      model={run}
      host={host}
      root={panel}
      inCell
      folds={source.opened?.() !== true}
      label=""
      empty={<div className="nbdist-head nbdist-quiet">{pageWords().waiting}</div>}
      notes={served?.notes ?? (silent && <Silence view={view} since={since} />)}
      knownUntil={silent ? since : undefined}
      onShown={onShown}
    />
  );
}

/** Keep state and percent beside the prompt of the cell of the panel `root`, for as long as the panel itself is
 * below what can be seen: a long cell hides the panel of its own run. Of a run that had ended before there is none. */
function usePromptMark(root: RefObject<HTMLElement | null>, view: RunView | null): void {
  const mark = useRef<PromptMark | null>(null);
  const seenLive = useRef(false);
  useEffect(() => {
    const head = root.current?.firstElementChild;
    const input = root.current?.closest('.jp-Cell')?.querySelector<HTMLElement>('.jp-Cell-inputWrapper');
    if (!head || !input) {
      return;
    }
    const made = new PromptMark(input, () => root.current?.scrollIntoView({ block: 'nearest' }));
    mark.current = made;
    // in the upper half it is above what can be seen, as the prompt is
    const observer = new IntersectionObserver(entries => {
      const last = entries.at(-1)!;
      made.show(!last.isIntersecting && last.boundingClientRect.top > window.innerHeight / 2);
    });
    observer.observe(head);
    return () => {
      observer.disconnect();
      made.remove();
    };
    // the head is another element once there is a view
  }, [root, view === null]); // eslint-disable-line react-hooks/exhaustive-deps
  useEffect(() => {
    seenLive.current ||= view?.live ?? false;
    if (view && seenLive.current) {
      const done = view.live ? doneText(view.progress) : '';
      mark.current?.update(view.live ? 'live' : view.state, stateWord(view), done);
    }
  }, [view]);
}

/** Drawn by hand, since it stands outside of the panel. */
class PromptMark {
  private readonly column = element('div', 'nbdist-prompt-mark');
  private readonly button = element('button') as HTMLButtonElement;
  private below = false;
  private drawn = false;

  constructor(input: HTMLElement, onClick: () => void) {
    this.column.hidden = true;
    this.button.type = 'button';
    this.button.addEventListener('click', onClick);
    this.column.append(this.button);
    input.append(this.column);
  }

  show(below: boolean): void {
    this.below = below;
    this.column.hidden = !(below && this.drawn);
  }

  update(state: string, word: string, done: string): void {
    this.column.dataset['state'] = state;
    this.button.setAttribute('aria-label', [word, done].filter(Boolean).join(' '));
    this.button.replaceChildren(...[word, done].filter(Boolean).map(text => element('span', '', text)));
    this.drawn = true;
    this.show(this.below);
  }

  remove(): void {
    this.column.remove();
  }
}
