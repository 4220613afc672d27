/** The panel: puts the views together, and keeps what its reader chose (tab, rank, line). */
import {
  type KeyboardEvent,
  type ReactElement,
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { copy } from '../clipboard';
import { actionOf, chord, type Action } from '../keys';
import type { RunLog } from '../log/run_log';
import type { LogWords } from '../log/words';
import type { BoardAnswer, Chart, RunView } from '../protocol';
import type { Theme } from '../theme';
import { WORDS, type Words } from '../words';
import { CellPane } from './Code';
import { useSize } from './clocks';
import { Failure } from './Failure';
import { Header } from './Header';
import { LogPane, type LogPaneHandle } from './LogPane';
import { Metrics } from './Metrics';
import { Note, Silence, type Notice } from './Notes';
import { RankGrid } from './RankGrid';
import { RankStrip } from './RankStrip';
import { hangs, heldRanks, Stall, type StallActions } from './Stall';
import { Tabs, type Tab } from './Tabs';

/** Up to here each rank has a cell and a tab. */
const FEW = 8;
const BRIEFLY = 5000;
const NONE: readonly number[] = [];

export interface PanelProps {
  view: RunView | null;
  /** seconds of `now` at which `view` was true, and at which anything came last */
  viewAt: number;
  heardAt: number;
  now: () => number;
  cell: string | null;
  charts: ReadonlyMap<string, Chart>;
  utilisation: ReadonlyMap<number, readonly number[]>;
  log: RunLog;
  /** error lines of the ranks that have any */
  errors: ReadonlyMap<number, number>;
  foreground: boolean;
  theme: Theme;
  /** another number when the page's colours changed */
  look: number;
  words: Words;
  logWords: LogWords;
  /** false when the reader has to interrupt the cell by hand */
  onStop: () => Promise<boolean>;
  stall: StallActions;
  /** where VisualDL is, null when the kernel has no time to say */
  onBoard: () => Promise<BoardAnswer | null>;
}

export function Panel(props: PanelProps): ReactElement {
  const { view, words, log } = props;
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const narrow = size === 'narrow';
  const pane = useRef<LogPaneHandle>(null);
  const [tab, setTab] = useState<Tab>('all');
  const [shownLog, setShownLog] = useState<number | null>(null);
  const [picked, setPicked] = useState<number | null | undefined>(undefined);
  const [line, setLine] = useState<number | null>(null);
  const [stopping, setStopping] = useState(false);
  const [cannotStop, setCannotStop] = useState(false);
  const [notice, setNotice] = useState<Notice | null>(null);
  const later = useRef<(() => void) | null>(null);
  const prefix = useId();

  const { onStop, onBoard } = props;
  const label = view?.label ?? '';
  const worldSize = view?.ranks.length ?? 0;
  const few = worldSize <= FEW;
  const failed = view?.failure?.rank ?? null;
  // the first failure is what one wants to see, until something else is chosen
  const selected = picked === undefined ? (failed ?? view?.ranks[0]?.rank ?? null) : picked;

  // what needs the next view to be there: the search field of a log that was hidden. Before anything else
  // happens: later, it would take the focus from where the next key has put it
  useLayoutEffect(() => {
    const act = later.current;
    later.current = null;
    act?.();
  });
  useEffect(() => {
    if (!notice?.brief) {
      return;
    }
    const timer = setTimeout(() => setNotice(null), BRIEFLY);
    return () => clearTimeout(timer);
  }, [notice]);

  const tabId = useCallback((of: Tab) => `${prefix}-tab-${of}`, [prefix]);
  const panelId = useCallback(
    (of: Tab) => `${prefix}-${of === 'metrics' || of === 'cell' ? of : 'log'}`,
    [prefix],
  );
  const select = useCallback((to: Tab) => {
    setTab(to);
    if (to === 'all' || typeof to === 'number') {
      setShownLog(to === 'all' ? null : to);
    }
    if (typeof to === 'number') {
      setPicked(to);
    }
  }, []);
  const open = useCallback(
    (rank: number) => {
      select(rank);
      later.current = () => pane.current?.focusLog();
    },
    [select],
  );
  const goToLine = useCallback((to: number) => {
    setLine(to);
    setTab('cell');
  }, []);
  const stop = useCallback(() => {
    setStopping(true);
    void onStop().then(done => setCannotStop(!done));
  }, [onStop]);
  const copyText = useCallback(
    (text: string) => {
      void copy(text).then(done =>
        setNotice(done ? { text: words.copied(text), brief: true } : { text: words.notCopied(text) }),
      );
    },
    [words],
  );
  const openBoard = useCallback(() => {
    setNotice({ text: words.boardAsked });
    void onBoard().then(answer => setNotice(showBoard(answer, label, words)));
  }, [onBoard, label, words]);

  const act = (action: Action): void => {
    const toLog = (then: (log: LogPaneHandle) => void): void => {
      if (tab === 'metrics' || tab === 'cell') {
        select(shownLog ?? 'all');
        later.current = () => pane.current && then(pane.current);
      } else if (pane.current) {
        later.current = null;
        then(pane.current);
      }
    };
    const toTab = (to: Tab): void => {
      select(to);
      later.current = () => document.getElementById(tabId(to))?.focus({ preventScroll: true });
    };
    switch (action.kind) {
      case 'search':
        return toLog(log => log.focusSearch());
      case 'follow':
        return toLog(log => log.toggleFollow());
      case 'wrap':
        return toLog(log => log.toggleWrap());
      case 'first error':
        return toLog(log => log.jumpToFirstError());
      case 'rank':
        return action.rank < worldSize ? toTab(action.rank) : undefined;
      case 'all':
      case 'metrics':
      case 'cell':
        return toTab(action.kind);
      case 'leave':
        return leave(root.current);
    }
  };
  const key = (event: KeyboardEvent): void => {
    if (chord(event)) {
      return;
    }
    // the notebook has commands on the same letters
    event.stopPropagation();
    const action = event.defaultPrevented ? null : actionOf(event);
    if (action) {
      act(action);
      event.preventDefault();
    }
  };

  const tabs = useMemo(() => {
    if (few) {
      return view?.ranks.map(({ rank }) => rank) ?? NONE;
    }
    return selected === null ? NONE : [selected];
  }, [few, view?.ranks, selected]);
  const held = useMemo(() => (view ? heldRanks(view) : new Map()), [view]);
  const logTab = tab === 'all' || typeof tab === 'number';

  return (
    <section
      className="nbdist"
      aria-label={words.panel(label)}
      // said although a section with a name is one: tests and tools look for it
      role="region"
      ref={root}
      data-size={size}
      data-theme={props.theme}
      onKeyDown={key}
    >
      {view ? (
        <Header
          view={view}
          viewAt={props.viewAt}
          now={props.now}
          narrow={narrow}
          stopping={stopping}
          words={words}
          onStop={stop}
          onCopy={copyText}
          onBoard={openBoard}
        />
      ) : (
        <div className="nbdist-head nbdist-quiet">{words.waiting}</div>
      )}
      {cannotStop && view?.live && <Note notice={{ text: words.cannotStop(label) }} />}
      {notice && <Note notice={notice} />}
      <Silence
        view={view}
        viewAt={props.viewAt}
        heardAt={props.heardAt}
        foreground={props.foreground}
        now={props.now}
        words={words}
      />
      {view &&
        (few ? (
          <RankStrip
            ranks={view.ranks}
            live={view.live}
            failedFirst={failed}
            held={held}
            slow={view.slow}
            utilisation={props.utilisation}
            size={size}
            words={words}
            onOpen={open}
          />
        ) : (
          <RankGrid
            ranks={view.ranks}
            selected={selected}
            failedFirst={failed}
            samples={(selected !== null && props.utilisation.get(selected)) || NONE}
            narrow={narrow}
            words={words}
            onSelect={setPicked}
            onOpen={open}
          />
        ))}
      {view?.stall && hangs(view) && (
        <Stall
          view={view}
          stall={view.stall}
          viewAt={props.viewAt}
          now={props.now}
          words={words}
          chinese={words === WORDS.zh}
          actions={props.stall}
          onCellLine={goToLine}
        />
      )}
      {view?.failure && (
        <Failure failure={view.failure} cell={props.cell} words={words} onCellLine={goToLine} onOpen={open} />
      )}
      <Tabs
        ranks={tabs}
        pick={few ? 0 : worldSize}
        errors={props.errors}
        current={tab}
        narrow={narrow}
        words={words}
        tabId={tabId}
        panelId={panelId}
        onSelect={select}
      />
      <div role="tabpanel" id={panelId('all')} aria-labelledby={tabId(shownLog ?? 'all')} hidden={!logTab}>
        <LogPane
          ref={pane}
          log={log}
          worldSize={worldSize}
          selected={shownLog}
          words={props.logWords}
          label={label}
          narrow={narrow}
          onCellLine={goToLine}
        />
      </div>
      {tab === 'metrics' && (
        <div role="tabpanel" id={panelId('metrics')} aria-labelledby={tabId('metrics')}>
          <Metrics
            charts={props.charts}
            ranks={worldSize}
            look={props.look}
            words={words}
            onBoard={openBoard}
          />
        </div>
      )}
      {tab === 'cell' && (
        <div role="tabpanel" id={panelId('cell')} aria-labelledby={tabId('cell')}>
          <CellPane source={props.cell} line={line ?? view?.failure?.line ?? null} words={words} />
        </div>
      )}
    </section>
  );
}

/** Opens the board, and what there is to say about it. */
function showBoard(answer: BoardAnswer | null, label: string, words: Words): Notice {
  if (answer === null) {
    return { text: words.boardLater(label) };
  }
  const url = webAddress(answer.url);
  if (answer.problem || url === null) {
    return { text: words.boardProblem(answer.problem || answer.url) };
  }
  const opened = window.open(url, '_blank');
  if (opened === null) {
    return { text: words.boardBlocked, link: url };
  }
  opened.opener = null;
  return { text: words.boardAt, brief: true };
}

/** The whole address, null for what is no page (`javascript:`). */
function webAddress(url: string): string | null {
  try {
    const whole = new URL(url, location.href);
    return url && /^https?:$/.test(whole.protocol) ? whole.href : null;
  } catch {
    return null;
  }
}

/** Give the focus back to the notebook: to the cell that the panel is in. */
function leave(root: HTMLElement | null): void {
  const cell = root?.closest<HTMLElement>('.jp-Cell, .jp-Notebook');
  if (cell && cell.tabIndex >= 0) {
    cell.focus({ preventScroll: true });
  } else if (document.activeElement instanceof HTMLElement) {
    document.activeElement.blur();
  }
}
