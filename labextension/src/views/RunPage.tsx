/** A run: its head, ranks, failure, tabs and logs, drawn from one model. Keeps what its reader chose (tab, rank,
 * line). A notebook's cell and a page of JupyterLab both show it so; what only one of them has goes into slots. */
import {
  Fragment,
  type KeyboardEvent,
  type ReactElement,
  type ReactNode,
  type RefObject,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useState,
  useSyncExternalStore,
} from 'react';

import { chord, leave } from './keys';
import type { RunModel } from '../model/run_model';
import { cellSource, type PageAction } from '../page/actions';
import { localized } from '../words/languages';
import { words } from '../words/panel';
import { CellPane } from './Code';
import { Header } from './Header';
import { LogPane } from './LogPane';
import { FirstMetrics, figuresText, lastStep, Metrics } from './charts/Metrics';
import { type Ask, Debugger } from './Debugger';
import { CopyReport } from './CopyReport';
import { Failure, InputsAndResults, Note, type Notice, useCopying, useNotice, useSilence } from './Notes';
import { clock } from '../words/formats';
import { Profile, type Profiler, RecordButton } from './Profile';
import { FEW, Ranks } from './ranks/Ranks';
import { hangs, Stacks, StallBanner } from './Stall';
import { isLog, type PageTab, type Tab, Tabs } from './Tabs';
import { TrainingNote } from './TimeBar';
import { type Size, useAfterDrawing, useSize, useTheme } from './hooks';

/** The actions of a host on a page. */
export interface RunControls {
  select: (tab: Tab) => void;
  notify: (notice: Notice) => void;
  /** show a line of the cell */
  goToLine: (line: number) => void;
}

/** The services of the host (a cell, a dashboard) for the page of a run. */
export interface RunHost {
  /** requests the end of the run; resolves to a notice where that is impossible, else to null */
  stop: () => Promise<Notice | null>;
  /** shows VisualDL; null where there is none */
  board: ((page: RunControls) => void) | null;
  /** take the stacks again, interrupt a rank; null where the kernel would not hear of it */
  again: ((page: RunControls) => void) | null;
  interrupt: ((rank: number, page: RunControls) => void) | null;
  profiler?: Profiler;
  /** a command for the prompts of held ranks */
  debug?: Ask | undefined;
  /** actions of nbdist's extension, where it is installed; `from` is the panel */
  act?: ((action: PageAction, from: Element) => void) | undefined;
  /** the line with which a cell would start the run again; empty where that is not known */
  line?: (() => string) | undefined;
  /** the run as one text for another reader, null where it cannot be had */
  report?: (() => Promise<string | null>) | undefined;
  /** goes to a line of the cell in its notebook */
  reveal?: (line: number) => void;
}

export interface RunPageProps {
  model: RunModel;
  host: RunHost;
  root: RefObject<HTMLElement | null>;
  /** true when a notebook's cell is around it, which has commands on the same keys */
  inCell: boolean;
  /** a run that has finished is one line, until its reader opens it */
  folds?: boolean;
  /** name of the run, and the content, while nothing of it has come */
  label: string;
  empty: ReactElement;
  /** more beside the head */
  tools?: (size: Size) => ReactNode;
  /** notes about the connection */
  notes?: ReactNode;
  /** true while a server is heard, which would tell of news: no news is good news then */
  connected?: boolean;
  /** number of curves above the log */
  curves?: number;
  /** more tabs, in front of the curves and the cell, as long as they are offered */
  pages?: readonly (PageTab & { offered: boolean; draw: (page: RunControls) => ReactElement })[];
  /** over the log of a rank */
  besideLog?: (rank: number) => ReactNode;
  /** whose log is shown, null for all */
  onShown?: ((rank: number | null) => void) | undefined;
  onControls?: ((page: RunControls) => void) | undefined;
}

export function RunPage(props: RunPageProps): ReactElement {
  const { model, host, root, inCell, curves = 0, pages = [], onShown, onControls } = props;
  const version = useSyncExternalStore(model.subscribe, () => model.version);
  const { theme } = useTheme();
  const size = useSize(root);
  const narrow = size === 'narrow';
  const [tab, setTab] = useState<Tab>('all');
  const [shownLog, setShownLog] = useState<number | null>(null);
  const [picked, setPicked] = useState<number | null>(null);
  const [line, setLine] = useState<number | null>(null);
  const [stopping, setStopping] = useState(false);
  // what the reader has opened, or had begun to read, stays open
  const [opened, setOpened] = useState(false);
  const [notice, notify] = useNotice();
  const copyText = useCopying(notify);
  const afterDrawing = useAfterDrawing();
  const prefix = useId();

  const { view, viewAt, heardAt, log } = model;
  const silent = useSilence(model) && !props.connected;
  /** seconds of the run until which it is known that it goes on */
  const knownUntil = view ? view.elapsed + Math.max(0, heardAt - viewAt) : 0;
  const ranks = useMemo(() => view?.ranks.map(({ rank }) => rank) ?? [], [view?.ranks]);
  const label = view?.label ?? props.label;
  const small = ranks.length <= FEW;
  // the first failure is what one wants to see, until something else is chosen
  const selected = picked ?? view?.failure?.rank ?? ranks[0] ?? null;
  const lone = inCell ? selected : shownLog;
  const logTab = isLog(tab);

  const held = (view?.live ? view.ranks : []).filter(
    each => each.held && (shownLog === null || shownLog === each.rank),
  );
  const tabId = (of: Tab): string => `${prefix}-tab-${of}`;
  const panelId = (of: Tab): string => `${prefix}-${isLog(of) ? 'log' : of}`;
  const select = useCallback(
    (to: Tab) => {
      setTab(to);
      if (isLog(to)) {
        setShownLog(to === 'all' ? null : to);
      }
      if (typeof to === 'number') {
        setPicked(to);
      }
    },
    [setPicked],
  );
  useEffect(() => onShown?.(shownLog), [onShown, shownLog]);
  const open = useCallback(
    (rank: number) => {
      select(rank);
      afterDrawing(() => root.current?.querySelector<HTMLElement>('[role=log]')?.focus());
    },
    [select, afterDrawing, root],
  );
  const goToLine = useCallback(
    (to: number) => {
      setLine(to);
      setTab('cell');
      host.reveal?.(to);
    },
    [host],
  );
  const controls = useMemo(() => ({ select, notify, goToLine }), [select, notify, goToLine]);
  useEffect(() => onControls?.(controls), [onControls, controls]);
  const bound = useMemo(() => boundTo(controls, host), [controls, host]);
  const onAct = useMemo(
    () => host.act && ((action: PageAction) => host.act!(action, root.current!)),
    [host, root],
  );
  const firstLine = host.line?.() ?? '';
  const copyCell = useCallback(
    () => copyText(cellSource(firstLine, model.cell ?? ''), words.cellCopied),
    [firstLine, model, copyText],
  );
  const stop = useCallback(() => {
    setStopping(true);
    void host.stop().then(problem => {
      if (problem) {
        setStopping(false);
        notify(problem);
      }
    });
  }, [host, notify]);

  const key = (event: KeyboardEvent): void => {
    if (inCell && !chord(event)) {
      event.stopPropagation();
      if (event.key === 'Escape' && !event.defaultPrevented) {
        leave(root.current);
      }
    }
  };

  const stopped = !view?.failure && (view?.state === 'stopped' || view?.state === 'stopping');
  const errors = useMemo(
    // the tracebacks of a stop are no errors
    () => new Map(ranks.map(rank => [rank, stopped ? 0 : log.errors(rank)] as const)),
    // the version stands for all that the log holds
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [log, ranks, version, stopped],
  );
  const tabs = [
    ...pages.filter(({ offered }) => offered),
    { tab: 'metrics' as const, name: words.metrics, icon: 'metrics' as const },
    { tab: 'cell' as const, name: words.cell, icon: 'cell' as const },
  ];
  const warnings = view?.notes.length
    ? view.notes.filter(text => !view.training || text !== localized(view.training.text)) // it stands at the bar
    : (view?.warnings ?? []).map(({ text }) => localized(text));
  const report = useMemo(
    () => host.report && <CopyReport report={host.report} label={label} notify={notify} />,
    [host, label, notify],
  );
  const foldable = props.folds === true && view?.state === 'finished';
  const folded = foldable && !opened;
  const read = foldable ? undefined : () => setOpened(true);
  const fold = foldable && {
    open: opened,
    figures: figuresText(model.charts) || (view.ranks[0]?.lastLine.trim() ?? ''),
    body: `${prefix}-body`,
    toggle: () => setOpened(!opened),
  };
  const Body = inCell ? 'div' : Fragment;
  const stall = view?.stall && (hangs(view) || (inCell && !view.live)) ? view.stall : null;
  const head = view && (
    <Header
      view={view}
      viewAt={viewAt}
      knownUntil={silent ? knownUntil : undefined}
      narrow={narrow}
      stopping={stopping}
      onStop={stop}
      onCopy={copyText}
      onBoard={bound.board}
      onAct={onAct}
      onCopyCell={firstLine ? copyCell : undefined}
      fold={fold || undefined}
      // of a program that does not say how many steps it has
      step={stopped && !view.live && !view.progress ? lastStep(model.charts) : null}
      report={
        (view.state === 'failed' || view.state === 'lost') && !stall?.groups.length ? report : undefined
      }
    />
  );

  return (
    <section
      className={inCell ? 'nbdist' : 'nbdist nbdist-dash'}
      aria-label={words.panel(label)}
      // said although a section with a name is one: tests and tools look for it
      role="region"
      ref={root}
      data-size={size}
      data-theme={theme}
      data-held={view?.live === true && view.ranks.some(each => each.held)}
      onKeyDown={key}
      onKeyDownCapture={read}
      onClickCapture={read}
    >
      {head && props.tools ? (
        <div className="nbdist-row nbdist-dash-head">
          <div className="nbdist-dash-title">{head}</div>
          {props.tools(size)}
        </div>
      ) : (
        (head ?? props.empty)
      )}
      {notice && !(notice.live && view?.live === false) && <Note notice={notice} />}
      {props.notes}
      {silent && inCell && props.connected === undefined && (
        <div className="nbdist-note nbdist-calm">
          {view ? words.noNews(clock(knownUntil), view.label) : words.neverNews}
        </div>
      )}
      {view && stall && view.live && (
        <StallBanner view={view} stall={stall} viewAt={viewAt} interrupt={bound.interrupt} />
      )}
      {view && (
        <TrainingNote view={view}>
          {host.profiler && view.live && (
            <RecordButton view={view} profiler={host.profiler} notify={notify} />
          )}
        </TrainingNote>
      )}
      {warnings.length > 0 && (
        <div className="nbdist-note nbdist-calm">
          {warnings.map(note => (
            <div key={note}>{note}</div>
          ))}
        </div>
      )}
      <Body {...(inCell && { className: 'nbdist-body', id: `${prefix}-body`, hidden: folded })}>
        {view && (
          <div className={inCell ? undefined : 'nbdist-dash-ranks'}>
            <Ranks view={view} selected={selected} onSelect={setPicked} onOpen={open} />
          </div>
        )}
        {view && <Profile view={view} profiler={host.profiler} />}
        {view && <InputsAndResults view={view} />}
        {view && stall && stall.groups.length > 0 && (
          <div className={inCell ? undefined : 'nbdist-dash-stall'}>
            <Stacks
              stall={stall}
              again={view.live ? bound.again : null}
              onCellLine={goToLine}
              report={view.failure ? undefined : report}
            />
          </div>
        )}
        {view?.failure && (
          <Failure
            failure={view.failure}
            cell={model.cell}
            onCellLine={goToLine}
            onOpen={open}
            checkpoint={view.live ? '' : view.checkpoint}
            onAct={onAct}
            report={report}
          />
        )}
        {curves > 0 && logTab && <FirstMetrics charts={model.charts} most={curves} />}
        <Tabs
          ranks={small ? ranks : lone === null ? [] : [lone]}
          pages={tabs}
          pick={small || !inCell ? 0 : ranks.length}
          errors={errors}
          current={tab}
          narrow={narrow}
          tabId={tabId}
          panelId={panelId}
          onSelect={select}
        />
        <div
          className={inCell ? undefined : 'nbdist-dash-pane'}
          role="tabpanel"
          id={panelId('all')}
          aria-labelledby={tabId(shownLog ?? 'all')}
          hidden={!logTab}
        >
          <LogPane
            log={log}
            worldSize={ranks.length}
            ended={view?.live === false}
            failed={view?.live === false ? (view.failure?.rank ?? (stopped ? null : undefined)) : undefined}
            selected={shownLog}
            label={label}
            narrow={narrow}
            importing={view ? localized(view.importing) : ''}
            theme={theme}
            onCellLine={goToLine}
          />
          {host.debug && <Debugger key={shownLog} held={held} ask={host.debug} />}
          {shownLog !== null && props.besideLog?.(shownLog)}
        </div>
        {!logTab && (
          <div
            className={inCell ? undefined : 'nbdist-dash-pane'}
            role="tabpanel"
            id={panelId(tab)}
            aria-labelledby={tabId(tab)}
            data-page={tab}
          >
            {tab === 'metrics' && (
              <Metrics charts={model.charts} leftOut={model.leftOut} onBoard={bound.board} />
            )}
            {tab === 'cell' && <CellPane source={model.cell} line={line ?? view?.failure?.line ?? null} />}
            {pages.find(page => page.tab === tab)?.draw(controls)}
          </div>
        )}
      </Body>
    </section>
  );
}

/** Return the host's actions bound to this page; the same functions as long as the host is the same. */
function boundTo(page: RunControls, { board, again, interrupt }: RunHost) {
  return {
    board: board && (() => board(page)),
    again: again && (() => again(page)),
    interrupt: interrupt && ((rank: number) => interrupt(rank, page)),
  };
}
