/** The panel: puts the views together, and keeps what its reader chose (tab, rank, line). */
import {
  type KeyboardEvent,
  type ReactElement,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from 'react';
import { copy } from '../clipboard';
import { actionOf, chord, type Action } from '../keys';
import type { RunLog } from '../log/run_log';
import type { LogWords } from '../log/words';
import type { PageAction } from '../page_actions';
import type { BoardAnswer, Chart, RunView } from '../protocol';
import type { Theme } from '../theme';
import { WORDS, type Words } from '../words';
import { showBoard } from './board';
import { CellPane } from './Code';
import { useSize } from './clocks';
import { Failure } from './Failure';
import { Header } from './Header';
import { LogPane, type LogPaneHandle } from './LogPane';
import { Metrics } from './Metrics';
import { Note, Silence, type Notice } from './Notes';
import { focusById, leave, useAfterDrawing } from './panel_focus';
import { usePromptMark } from './prompt_mark';
import { FEW, Ranks } from './Ranks';
import { hangs, Stacks, StallBanner, type StallActions, type StallProps } from './Stall';
import { Tabs, type Tab } from './Tabs';

const BRIEFLY = 5000;
const NONE: readonly number[] = [];
const NOTHING_TO_DO: StallActions = { again: null, interrupt: null };

export interface PanelProps {
  view: RunView | null;
  /** seconds of `now` at which `view` was true, and at which anything came last */
  viewAt: number;
  heardAt: number;
  now: () => number;
  cell: string | null;
  charts: ReadonlyMap<string, Chart>;
  utilisation: ReadonlyMap<number, readonly number[]>;
  /** percent of its time that a rank waits for others */
  waits: ReadonlyMap<number, number>;
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
  onAct?: ((action: PageAction, from: Element) => void) | undefined;
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
  const afterDrawing = useAfterDrawing();
  const prefix = useId();

  usePromptMark(root, view, words);

  const { onStop, onBoard } = props;
  const label = view?.label ?? '';
  const worldSize = view?.ranks.length ?? 0;
  const few = worldSize <= FEW;
  const failed = view?.failure?.rank ?? null;
  // the first failure is what one wants to see, until something else is chosen
  const selected = picked === undefined ? (failed ?? view?.ranks[0]?.rank ?? null) : picked;

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
      afterDrawing(() => pane.current?.focusLog());
    },
    [select, afterDrawing],
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

  const { onAct } = props;
  const pageAct = useMemo(() => onAct && ((action: PageAction) => onAct(action, root.current!)), [onAct]);

  const act = (action: Action): void => {
    const toLog = (then: (log: LogPaneHandle) => void): void => {
      if (tab === 'metrics' || tab === 'cell') {
        select(shownLog ?? 'all');
        afterDrawing(() => pane.current && then(pane.current));
      } else if (pane.current) {
        afterDrawing(null);
        then(pane.current);
      }
    };
    const toTab = (to: Tab): void => {
      select(to);
      afterDrawing(() => focusById(root.current, tabId(to)));
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
  const logTab = tab === 'all' || typeof tab === 'number';
  const stall: StallProps | null =
    view?.stall && (hangs(view) || !view.live)
      ? {
          view,
          stall: view.stall,
          viewAt: props.viewAt,
          now: props.now,
          words,
          chinese: words === WORDS.zh,
          actions: view.live ? props.stall : NOTHING_TO_DO,
          onCellLine: goToLine,
        }
      : null;

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
          onAct={pageAct}
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
      {stall?.view.live && <StallBanner {...stall} />}
      {view && (
        <Ranks
          view={view}
          selected={selected}
          utilisation={props.utilisation}
          waits={props.waits}
          size={size}
          words={words}
          onSelect={setPicked}
          onOpen={open}
        />
      )}
      {view && view.notes.length > 0 && (
        <div className="nbdist-note nbdist-calm">
          {view.notes.map(note => (
            <div key={note}>{note}</div>
          ))}
        </div>
      )}
      {stall && <Stacks {...stall} />}
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
          <Metrics charts={props.charts} look={props.look} words={words} onBoard={openBoard} />
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
