/** A run below its cell: the page of a run, and a mark beside the prompt. */
import { type ReactElement, type RefObject, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { createPortal } from 'react-dom';

import type { RunModel } from '../model/run_model';
import { doneText } from '../words/formats';
import type { RunView } from '../protocol/run';
import { words } from '../words/panel';
import { stateWord } from './Header';
import { RunPage, type RunPageProps } from './RunPage';

interface PanelProps extends Pick<RunPageProps, 'host' | 'onShown' | 'connected' | 'notes'> {
  run: RunModel;
  /** false when the reader has asked for the run after its end */
  folds?: boolean;
  /** gets the panel's element */
  root?: RefObject<HTMLElement | null>;
}

export function Panel({ run, folds = true, root, ...props }: PanelProps): ReactElement {
  const own = useRef<HTMLElement>(null);
  const panel = root ?? own;
  useSyncExternalStore(run.subscribe, () => run.version);
  return (
    <>
      <RunPage
        {...props}
        model={run}
        root={panel}
        inCell
        folds={folds}
        label=""
        empty={<div className="nbdist-row nbdist-head nbdist-quiet">{words.waiting}</div>}
      />
      {run.view && <PromptMark root={panel} view={run.view} />}
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
