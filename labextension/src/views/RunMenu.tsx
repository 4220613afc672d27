/** The ⋯ of a run: what is done seldom. */
import { useEffect, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { moved } from '../keys';
import type { PageAction } from '../page_actions';
import type { Words } from '../words';
import { Icon } from './Marks';

interface RunMenuProps {
  label: string;
  live: boolean;
  words: Words;
  onCopy: (text: string) => void;
  onBoard: () => void;
  onAct: ((action: PageAction) => void) | undefined;
}

export function RunMenu({ label, live, words, onCopy, onBoard, onAct }: RunMenuProps): ReactElement {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const command = `%dist_attach ${label}`;
  const exporting = `%dist_export ${label}`;

  useEffect(() => {
    if (!open) {
      return;
    }
    root.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    const elsewhere = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) {
        setOpen(false);
      }
    };
    document.addEventListener('pointerdown', elsewhere);
    return () => document.removeEventListener('pointerdown', elsewhere);
  }, [open]);

  const choose = (act: () => void) => () => {
    setOpen(false);
    button.current?.focus();
    act();
  };
  const key = (event: KeyboardEvent): void => {
    const items = [...(root.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const to = moved(event.key, items.indexOf(document.activeElement as HTMLElement), items.length);
    if (event.key === 'Escape' || event.key === 'Tab') {
      setOpen(false);
      button.current?.focus();
    } else if (to !== null) {
      items[to]?.focus();
    }
    if (event.key !== 'Enter' && event.key !== ' ') {
      event.preventDefault();
    }
    event.stopPropagation();
  };

  return (
    <span className="nbdist-menu" ref={root}>
      <button
        type="button"
        className="nbdist-button nbdist-bare"
        ref={button}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={words.menu}
        title={words.menu}
        onClick={() => setOpen(!open)}
      >
        <Icon name="menu" />
      </button>
      {open && (
        <div role="menu" aria-label={words.menu} className="nbdist-menu-items" onKeyDown={key}>
          {onAct && (
            <button type="button" role="menuitem" tabIndex={-1} onClick={choose(() => onAct('open'))}>
              {words.openDashboard}
            </button>
          )}
          {onAct && !live && (
            <button type="button" role="menuitem" tabIndex={-1} onClick={choose(() => onAct('again'))}>
              {words.runAgain}
            </button>
          )}
          <button
            type="button"
            role="menuitem"
            tabIndex={-1}
            onClick={choose(() => (onAct ? onAct('export') : onCopy(exporting)))}
          >
            {words.exportRun} <code>{exporting}</code>
          </button>
          <button type="button" role="menuitem" tabIndex={-1} onClick={choose(() => onCopy(label))}>
            {words.copyName}
          </button>
          <button type="button" role="menuitem" tabIndex={-1} onClick={choose(() => onCopy(command))}>
            {words.showAgain} <code>{command}</code>
          </button>
          <button type="button" role="menuitem" tabIndex={-1} onClick={choose(onBoard)}>
            {words.openBoard}
          </button>
        </div>
      )}
    </span>
  );
}
