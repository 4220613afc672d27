/** The log of a rank, or of all: toolbar, the rows that can be seen, the lines that still grow. */
import {
  type CSSProperties,
  type KeyboardEvent,
  type ReactElement,
  type RefObject,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';

import { lostText } from '../log_view/drawing';
import { plain } from '../log/ansi';
import type { LogRow, LogRows } from '../log/rows';
import type { RunLog } from '../log/run_log';
import { BEFORE_DRAWING, LogScreen, type ScreenState } from '../log_view/screen';
import type { Slices } from '../log/slices';
import { Untraced } from '../log/untraced';
import { copy as copyText } from '../page/nodes';
import { logWords } from '../words/log';
import { Button, type ButtonProps, Icon } from './Marks';

/** characters that go to the clipboard at most */
const COPIED = 1024 * 1024;
/** milliseconds in which more of a log comes that is on its way */
const PATIENCE = 1500;
/** milliseconds that a notice stays */
const NOTICE = 3000;

export interface LogPaneProps {
  log: RunLog;
  worldSize: number;
  /** true when no more can come */
  ended?: boolean;
  /** the rank that failed first: the log opens at its error, and the tracebacks of others are folded away; null of
   * a run that was stopped, whose tracebacks all are */
  failed?: number | null | undefined;
  /** the rank whose log is shown, null for all */
  selected: number | null;
  /** name of the run, for the file that is downloaded */
  label: string;
  narrow: boolean;
  /** the import that goes on before the first line */
  importing?: string;
  /** theme of the page: outputs are drawn again with another one */
  theme?: string;
  onCellLine(line: number): void;
}

export function LogPane(props: LogPaneProps): ReactElement {
  const { log, worldSize, ended, failed, selected, label, narrow, theme, onCellLine } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const live = useRef<HTMLDivElement>(null);
  const detail = useRef<HTMLDivElement>(null);
  const screen = useRef<LogScreen | null>(null);
  const [state, setState] = useState(BEFORE_DRAWING);
  const [notice, setNotice] = useState('');
  const [traced, setTraced] = useState(false);
  const [tracebackLines, setTracebackLines] = useState(0);
  const jumped = useRef(false);

  const wide = selected === null && worldSize > 4;
  const gutter = wide ? 60 : 40;
  const time = narrow ? 0 : 60;

  const margin = gutter + time;
  const empty = ended ? logWords.none : props.importing || logWords.empty;

  useLayoutEffect(() => {
    const nodes = {
      scroller: scroller.current!,
      lines: lines.current!,
      rows: rows.current!,
      live: live.current!,
      detail: detail.current!,
    };
    const made = (screen.current = new LogScreen(log, nodes, setState));
    return () => made.end();
  }, [log]);

  useLayoutEffect(() => {
    const rows = selected === null ? log.all : log.rank(selected);
    // the log of a rank that was picked is shown as it is, unless its user has stopped it
    const folds = !traced && (failed === null || (failed !== undefined && selected === null));
    const untraced = folds ? new Untraced(rows, rank => rank !== failed) : null;
    screen.current!.show(untraced ?? rows, selected);
    if (!traced) {
      // shown all the same, they are counted as they were
      const count = (): void => setTracebackLines(untraced?.hidden ?? 0);
      count();
      untraced?.subscribe(count);
    }
    return () => untraced?.end();
  }, [log, selected, failed, traced]);

  useEffect(() => {
    if (typeof failed === 'number' && state.failed && !jumped.current) {
      jumped.current = true;
      screen.current!.jumpToFirstError();
    }
  }, [failed, state.failed]);

  useLayoutEffect(() => {
    screen.current!.setOptions({ margin, empty, onCellLine });
  }, [log, margin, empty, onCellLine, theme]);

  useEffect(() => {
    const timer = setTimeout(() => setNotice(''), NOTICE);
    return () => clearTimeout(timer);
  }, [notice]);

  const copy = async () => {
    const selection = screen.current!.selection;
    const copied = selection
      ? { text: selection, count: selection.replace(/\n$/, '').split('\n').length }
      : lastRows(screen.current!.shown, selected === null, COPIED);
    setNotice((await copyText(copied.text)) ? logWords.copied(copied.count) : logWords.cannotCopy);
  };

  const download = async () => {
    await settled(log);
    const whole = selected === null ? log.all : log.rank(selected);
    const file = await fileOf(whole, selected === null, log.slices);
    save(file, selected === null ? `${label}.log` : `${label}-rank${selected}.log`);
  };

  return (
    <div
      className={narrow ? 'nbdist-logpane nbdist-narrow' : 'nbdist-logpane'}
      style={{ '--nbdist-gutter': `${gutter}px`, '--nbdist-time': `${time}px` } as CSSProperties}
    >
      <div className="nbdist-row nbdist-tools nbdist-toolbar" role="toolbar" aria-label={logWords.tools}>
        <Find state={state} screen={screen} onLeave={() => scroller.current?.focus()} />
        {!narrow && (
          <span className="nbdist-quiet nbdist-cut nbdist-amount">
            {logWords.lines(state.lines, state.folded)}
          </span>
        )}
        <span className="nbdist-space" />
        <Tool
          icon="follow"
          label={logWords.follow}
          pressed={state.following}
          onClick={() => screen.current?.toggleFollow()}
        >
          {state.unseen > 0 && <span className="nbdist-new">{logWords.newLines(state.unseen)}</span>}
        </Tool>
        {state.failed && (
          <Tool
            icon="firstError"
            label={logWords.firstError}
            onClick={() => screen.current?.jumpToFirstError()}
            minor
          />
        )}
        {tracebackLines > 0 && (
          <Tool
            icon="stacks"
            label={logWords.tracebacks(tracebackLines)}
            pressed={traced}
            onClick={() => setTraced(!traced)}
            minor
          />
        )}
        <Tool
          icon="wrap"
          label={logWords.wrap}
          pressed={state.wrapped}
          onClick={() => screen.current?.toggleWrap()}
        />
        <Tool icon="copy" label={logWords.copy} onClick={() => void copy()} minor />
        <Tool icon="download" label={logWords.download} onClick={() => void download()} />
      </div>
      <div
        ref={scroller}
        className="nbdist-log"
        role="log"
        aria-live="off"
        aria-label={logWords.log}
        tabIndex={0}
      >
        <div ref={lines} className="nbdist-lines">
          <div ref={rows} className="nbdist-rows" />
        </div>
      </div>
      <div ref={detail} className="nbdist-whole" role="region" aria-label={logWords.fullLine} hidden />
      <div ref={live} className="nbdist-live" hidden />
      <div className="nbdist-notice" role="status">
        {notice}
      </div>
    </div>
  );
}

/** Wait until every written line has come, or so few come that this may last. */
async function settled(log: RunLog): Promise<void> {
  for (let lines = -1; !log.settled && log.all.lines > lines;) {
    lines = log.all.lines;
    await new Promise(done => setTimeout(done, PATIENCE));
  }
}

function save(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // the browser needs the address until it has read the file
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

interface ToolProps extends ButtonProps {
  /** its text goes first when room is short */
  minor?: boolean;
}

/** Draw a button whose label gives way to its icon where room is short. */
function Tool({ minor, ...button }: ToolProps): ReactElement {
  return <Button {...button} className={minor ? 'nbdist-tool nbdist-minor' : 'nbdist-tool'} named />;
}

interface FindProps {
  state: ScreenState;
  screen: RefObject<LogScreen | null>;
  onLeave(): void;
}

function Find({ state, screen, onLeave }: FindProps) {
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    // the notebook must not take what is typed here for its own commands
    event.stopPropagation();
    if (event.key === 'Enter') {
      event.preventDefault();
      screen.current?.step(event.shiftKey ? -1 : 1);
    } else if (event.key === 'Escape') {
      event.currentTarget.value = '';
      screen.current?.find('');
      onLeave();
    }
  };
  const count = state.current ? `${state.current}/${state.matches}` : `${state.matches}`;
  return (
    <span className="nbdist-row nbdist-field nbdist-find" data-lm-suppress-shortcuts="true">
      <Icon name="search" />
      <input
        className="nbdist-search"
        type="search"
        role="searchbox"
        aria-label={logWords.search}
        placeholder={logWords.search}
        onInput={event => screen.current?.find(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      <span className="nbdist-quiet nbdist-count" role="status">
        {state.searching ? count : ''}
      </span>
      {state.searching && (
        <>
          <Tool icon="previous" label={logWords.previous} bare onClick={() => screen.current?.step(-1)} />
          <Tool icon="next" label={logWords.next} bare onClick={() => screen.current?.step(1)} />
        </>
      )}
    </span>
  );
}

/** rows that go into one piece of a file */
const PIECE = 2048;

/** Return a row's text; with `[ranks]` in front when rows of several ranks follow each other. */
function rowText(row: LogRow, named: boolean): string {
  const text = row.kind === 'line' ? plain(row.text) : lostText(row);
  return named && row.ranks ? `[${row.ranks.label}] ${text}` : text;
}

/** Return the last rows, at most `limit` characters of them. */
function lastRows(rows: LogRows, named: boolean, limit: number): { text: string; count: number } {
  const lines: string[] = [];
  let length = 0;
  for (let at = rows.count - 1; at >= 0; at--) {
    const line = rowText(rows.row(at), named);
    length += line.length + 1;
    if (length > limit && lines.length) {
      break;
    }
    lines.push(line);
  }
  return { text: lines.reverse().join('\n'), count: lines.length };
}

/** Return all rows as a file, made in turns. */
function fileOf(rows: LogRows, named: boolean, slices: Slices): Promise<Blob> {
  const end = rows.count;
  const pieces: Blob[] = [];
  let piece: string[] = [];
  let at = 0;
  return new Promise(done => {
    slices.add(timeUp => {
      while (at < end && at < rows.count) {
        piece.push(rowText(rows.row(at++), named), '\n');
        if (piece.length >= 2 * PIECE) {
          // a blob of its own takes the text out of the heap
          pieces.push(new Blob([piece.join('')]));
          piece = [];
        }
        if (at % 64 === 0 && timeUp()) {
          return false;
        }
      }
      done(new Blob([...pieces, piece.join('')], { type: 'text/plain' }));
      return true;
    });
  });
}
