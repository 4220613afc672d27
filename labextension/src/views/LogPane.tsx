/** The log of a rank, or of all: toolbar, the rows that can be seen, the lines that still grow. */
import { forwardRef, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import type { CSSProperties } from 'react';

import { copy as toClipboard } from '../clipboard';
import { Differences } from '../log/differences';
import { fileOf, lastRows } from '../log/export';
import type { RunLog } from '../log/run_log';
import { LogScreen } from '../log/screen';
import { BEFORE_DRAWING, type ScreenLook } from '../log/screen_state';
import type { LogWords } from '../log/words';
import { LogToolbar } from './LogToolbar';

/** characters that go to the clipboard at most */
const COPIED = 1024 * 1024;
/** milliseconds in which more of a log comes that is on its way */
const PATIENCE = 1500;
/** milliseconds that a notice stays */
const NOTICE = 3000;

export interface LogPaneHandle {
  focusSearch(): void;
  toggleFollow(): void;
  toggleWrap(): void;
  jumpToFirstError(): void;
  focusLog(): void;
}

export interface LogPaneProps {
  log: RunLog;
  worldSize: number;
  /** the rank whose log is shown, null for all */
  selected: number | null;
  words: LogWords;
  /** name of the run, for the file that is downloaded */
  label: string;
  narrow: boolean;
  onCellLine(line: number): void;
}

export const LogPane = forwardRef<LogPaneHandle, LogPaneProps>(function LogPane(props, ref) {
  const { log, worldSize, selected, words, label, narrow, onCellLine } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const lines = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLDivElement>(null);
  const live = useRef<HTMLDivElement>(null);
  const detail = useRef<HTMLDivElement>(null);
  const searchBox = useRef<HTMLInputElement>(null);
  const screen = useRef<LogScreen | null>(null);
  const [state, setState] = useState(BEFORE_DRAWING);
  const [onlyDifferences, setOnlyDifferences] = useState(false);
  const [notice, setNotice] = useState('');

  const comparable = selected === null && worldSize > 1;
  const differing = comparable && onlyDifferences;
  const wide = selected === null && worldSize > 4;
  const gutter = wide ? 60 : 40;
  const time = narrow ? 0 : 60;

  const look: ScreenLook = {
    words,
    margin: gutter + time,
    empty: differing ? words.noDifferences : words.empty,
    onCellLine,
  };
  const latest = useRef(look);
  useLayoutEffect(() => {
    latest.current = look;
  });

  useLayoutEffect(() => {
    const made = new LogScreen(
      log,
      {
        scroller: scroller.current!,
        lines: lines.current!,
        rows: rows.current!,
        live: live.current!,
        detail: detail.current!,
      },
      { ...latest.current, onCellLine: line => latest.current.onCellLine(line) },
      setState,
    );
    screen.current = made;
    return () => made.end();
  }, [log]);

  useLayoutEffect(() => {
    const differences = differing ? new Differences(log.all, worldSize) : null;
    screen.current!.show(differences ?? (selected === null ? log.all : log.rank(selected)), selected);
    return () => differences?.end();
  }, [log, selected, differing, worldSize]);

  useLayoutEffect(() => {
    screen.current!.dress({
      ...latest.current,
      onCellLine: line => latest.current.onCellLine(line),
    });
  }, [log, words, look.margin, look.empty]);

  useEffect(() => {
    const timer = setTimeout(() => setNotice(''), NOTICE);
    return () => clearTimeout(timer);
  }, [notice]);

  const find = (query: string) => screen.current?.find(query);
  const focusLog = () => scroller.current?.focus();

  useImperativeHandle(ref, () => ({
    focusSearch: () => {
      searchBox.current?.focus();
      searchBox.current?.select();
    },
    toggleFollow: () => screen.current?.toggleFollow(),
    toggleWrap: () => screen.current?.toggleWrap(),
    jumpToFirstError: () => screen.current?.jumpToFirstError(),
    focusLog,
  }));

  const copy = async () => {
    const selection = screen.current!.selection;
    const copied = selection
      ? { text: selection, count: selection.replace(/\n$/, '').split('\n').length }
      : lastRows(screen.current!.shown, words, selected === null, COPIED);
    setNotice((await toClipboard(copied.text)) ? words.copied(copied.count) : words.cannotCopy);
  };

  const download = async () => {
    await settled(log);
    const file = await fileOf(screen.current!.shown, words, selected === null, log.slices);
    save(file, selected === null ? `${label}.log` : `${label}-rank${selected}.log`);
  };

  return (
    <div
      className={narrow ? 'nbdist-logpane nbdist-narrow' : 'nbdist-logpane'}
      style={{ '--nbdist-gutter': `${gutter}px`, '--nbdist-time': `${time}px` } as CSSProperties}
    >
      <LogToolbar
        words={words}
        narrow={narrow}
        state={state}
        differences={comparable ? onlyDifferences : null}
        searchBox={searchBox}
        onFind={find}
        onStep={step => screen.current?.step(step)}
        onLeave={focusLog}
        onFollow={following => screen.current?.follow(following)}
        onWrap={() => screen.current?.toggleWrap()}
        onFirstError={() => screen.current?.jumpToFirstError()}
        onDifferences={() => setOnlyDifferences(!onlyDifferences)}
        onCopy={() => void copy()}
        onDownload={() => void download()}
      />
      <div
        ref={scroller}
        className="nbdist-log"
        role="log"
        aria-live="off"
        aria-label={words.log}
        tabIndex={0}
      >
        <div ref={lines} className="nbdist-lines">
          <div ref={rows} className="nbdist-rows" />
        </div>
      </div>
      <div ref={detail} className="nbdist-whole" role="region" aria-label={words.fullLine} hidden />
      <div ref={live} className="nbdist-live" hidden />
      <div className="nbdist-notice" role="status">
        {notice}
      </div>
    </div>
  );
});

/** When all that was written has come; or when so little comes that this may last. */
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
