/**
 * State and percent beside the prompt of a panel's cell, for as long as the panel itself is below what can be
 * seen: a long cell hides the panel of its own run. Drawn by hand, since it stands outside of the panel.
 */
import { useEffect, useRef, type RefObject } from 'react';
import { percent } from '../numbers';
import type { RunView } from '../protocol';
import type { Words } from '../words';
import { hangs } from './Stall';

/** Keep the mark of the panel `root`. Of a run that had ended before there is none. */
export function usePromptMark(root: RefObject<HTMLElement | null>, view: RunView | null, words: Words): void {
  const mark = useRef<PromptMark | null>(null);
  const seenLive = useRef(false);
  useEffect(() => {
    const head = root.current?.firstElementChild;
    const input = root.current?.closest('.jp-Cell')?.querySelector<HTMLElement>('.jp-Cell-inputWrapper');
    if (!head || !input || typeof IntersectionObserver === 'undefined') {
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
      const state = hangs(view) ? words.stalled : words.run[view.state];
      const done = view.live && view.progress ? percent(Math.floor(100 * view.progress.fraction)) : '';
      mark.current?.say(view.live ? 'live' : view.state, state, done);
    }
  }, [view, words]);
}

class PromptMark {
  private readonly column = document.createElement('div');
  private readonly button = document.createElement('button');
  private below = false;
  private said = false;

  constructor(input: HTMLElement, onClick: () => void) {
    this.column.className = 'nbdist-prompt-mark';
    this.column.hidden = true;
    this.button.type = 'button';
    this.button.addEventListener('click', onClick);
    this.column.append(this.button);
    input.append(this.column);
  }

  show(below: boolean): void {
    this.below = below;
    this.column.hidden = !(below && this.said);
  }

  say(state: string, word: string, done: string): void {
    this.column.dataset['state'] = state;
    this.button.replaceChildren(...[word, done].filter(Boolean).map(line));
    this.said = true;
    this.show(this.below);
  }

  remove(): void {
    this.column.remove();
  }
}

function line(text: string): HTMLElement {
  const node = document.createElement('span');
  node.textContent = text;
  return node;
}
