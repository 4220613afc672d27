/** A run below its cell: the page of a run, a note when the kernel is silent, and a mark beside the prompt. */
import { type ReactElement, type RefObject, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { createPortal } from 'react-dom';

import type { RunModel } from '../model/run_model';
import { clock, doneText } from '../words/formats';
import type { RunView } from '../protocol/run';
import { words } from '../words/panel';
import { stateWord } from './Header';
import { useSilence } from './Notes';
import { type RunHost, RunPage } from './RunPage';

interface PanelProps {
  run: RunModel;
  host: RunHost;
  /** false when the reader has asked for the run after its end */
  folds?: boolean;
  /** gets the panel's element */
  root?: RefObject<HTMLElement | null>;
  onShown?: (rank: number | null) => void;
  /** the connection, where a server tells of the run and not the kernel: while it is open, no news is good news */
  served?: { open: boolean; notes: ReactElement };
}

export function Panel({ run, host, folds = true, root, onShown, served }: PanelProps): ReactElement {
  const own = useRef<HTMLElement>(null);
  const panel = root ?? own;
  useSyncExternalStore(run.subscribe, () => run.version);
  const { view, viewAt, heardAt } = run;
  const silent = useSilence(run) && !served?.open;
  const since = view ? view.elapsed + Math.max(0, heardAt - viewAt) : 0;
  const silence = silent && (
    <div className="nbdist-note nbdist-calm">
      {view ? words.noNews(clock(since), view.label) : words.neverNews}
    </div>
  );
  return (
    <>
      <RunPage
        model={run}
        host={host}
        root={panel}
        inCell
        folds={folds}
        label=""
        empty={<div className="nbdist-row nbdist-head nbdist-quiet">{words.waiting}</div>}
        notes={served?.notes ?? silence}
        knownUntil={silent ? since : undefined}
        onShown={onShown}
      />
      {view && <PromptMark root={panel} view={view} />}
    </>
  );
}

/** Draw state and percent beside the prompt of the cell of the panel `root`, while the panel itself is below what can
 * be seen: a long cell hides the panel of its own run. Of a run that had ended before draw nothing. */
function PromptMark(props: { root: RefObject<HTMLElement | null>; view: RunView }): ReactElement | null {
  const { root, view } = props;
  const [wasLive] = useState(view.live);
  /** the cell's input, while its panel is below */
  const [input, setInput] = useState<Element | null>(null);
  useEffect(() => {
    const head = root.current?.firstElementChild;
    const around = root.current?.closest('.jp-Cell')?.querySelector('.jp-Cell-inputWrapper');
    if (!head || !around) {
      return;
    }
    // in the upper half it is above what can be seen, as the prompt is
    const observer = new IntersectionObserver(entries => {
      const last = entries.at(-1)!;
      const below = !last.isIntersecting && last.boundingClientRect.top > window.innerHeight / 2;
      setInput(below ? around : null);
    });
    observer.observe(head);
    return () => observer.disconnect();
  }, [root]);
  if (!wasLive || !input) {
    return null;
  }
  const texts = [stateWord(view), view.live ? doneText(view.progress) : ''].filter(Boolean);
  return createPortal(
    <div className="nbdist-prompt-mark" data-state={view.live ? 'live' : view.state}>
      <button
        type="button"
        aria-label={texts.join(' ')}
        onClick={() => root.current?.scrollIntoView({ block: 'nearest' })}
      >
        {texts.map(text => (
          <span key={text}>{text}</span>
        ))}
      </button>
    </div>,
    input,
  );
}
