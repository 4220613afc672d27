/** The toolbar over the log: search, following, and what can be done with the log. */
import type { KeyboardEvent, RefObject } from 'react';

import type { ScreenState } from '../log/screen_state';
import type { LogWords } from '../log/words';
import { LogIcon, type LogIconName } from './LogIcons';

export interface LogToolbarProps {
  words: LogWords;
  narrow: boolean;
  state: ScreenState;
  /** whether only differences are shown; null where there are none to show */
  differences: boolean | null;
  searchBox: RefObject<HTMLInputElement | null>;
  onFind(query: string): void;
  onStep(step: 1 | -1): void;
  onLeave(): void;
  onFollow(following: boolean): void;
  onWrap(): void;
  onFirstError(): void;
  onDifferences(): void;
  onCopy(): void;
  onDownload(): void;
}

interface ToolProps {
  name: LogIconName;
  label: string;
  onClick(): void;
  /** text beside the icon, where there is room; null for none */
  text?: string | null;
  pressed?: boolean;
  /** its text goes first when room is short */
  minor?: boolean;
}

function Tool({ name, label, onClick, text = label, pressed, minor = false }: ToolProps) {
  return (
    <button
      type="button"
      className={minor ? 'nbdist-tool nbdist-minor' : 'nbdist-tool'}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      onClick={onClick}
    >
      <LogIcon name={name} />
      {text === null ? null : <span className="nbdist-word">{text}</span>}
    </button>
  );
}

export function LogToolbar(props: LogToolbarProps) {
  const { words, narrow, state } = props;
  return (
    <div className="nbdist-toolbar" role="toolbar" aria-label={words.tools}>
      <Find {...props} />
      {narrow ? null : <span className="nbdist-amount">{words.lines(state.lines, state.folded)}</span>}
      <span className="nbdist-space" />
      <Position {...props} />
      {state.failed ? (
        <Tool name="firstError" label={words.firstError} onClick={props.onFirstError} minor />
      ) : null}
      {props.differences === null ? null : (
        <Tool
          name="differences"
          label={words.differences}
          pressed={props.differences}
          onClick={props.onDifferences}
          minor
        />
      )}
      <Tool name="wrap" label={words.wrap} pressed={state.wrapped} onClick={props.onWrap} />
      <Tool name="copy" label={words.copy} onClick={props.onCopy} minor />
      <Tool name="download" label={words.download} onClick={props.onDownload} />
    </div>
  );
}

function Find({ words, state, searchBox, onFind, onStep, onLeave }: LogToolbarProps) {
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    // the notebook must not take what is typed here for its own commands
    event.stopPropagation();
    if (event.key === 'Enter') {
      event.preventDefault();
      onStep(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      event.currentTarget.value = '';
      onFind('');
      onLeave();
    }
  };
  const count = state.current ? `${state.current}/${state.matches}` : `${state.matches}`;
  return (
    <span className="nbdist-find" data-lm-suppress-shortcuts="true">
      <LogIcon name="search" />
      <input
        ref={searchBox}
        className="nbdist-search"
        type="search"
        role="searchbox"
        aria-label={words.search}
        placeholder={words.search}
        onInput={event => onFind(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <span className="nbdist-count" role="status">
        {state.searching ? count : ''}
      </span>
      {state.searching ? (
        <>
          <Tool name="previous" label={words.previous} text={null} onClick={() => onStep(-1)} />
          <Tool name="next" label={words.next} text={null} onClick={() => onStep(1)} />
        </>
      ) : null}
    </span>
  );
}

function Position({ words, narrow, state, onFollow }: LogToolbarProps) {
  const { following, unseen } = state;
  return (
    <span className="nbdist-segment" role="group" aria-label={words.position}>
      <button
        type="button"
        className="nbdist-tool"
        aria-label={words.follow}
        title={words.follow}
        aria-pressed={following}
        onClick={() => onFollow(!following || !narrow)}
      >
        <LogIcon name="follow" />
        <span className="nbdist-word">{words.follow}</span>
        {unseen ? <span className="nbdist-new">{words.newLines(unseen)}</span> : null}
      </button>
      {narrow ? null : (
        <Tool name="pause" label={words.pause} pressed={!following} onClick={() => onFollow(false)} />
      )}
    </span>
  );
}
