/** One run in the main area: its ranks, curves, logs, and what can be done with it. */
import '../../styles/index.css';
import '../styles/lab.css';
import {
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
  type KeyboardEvent,
  type ReactElement,
} from 'react';

import { actionOf, chord } from '../../keys';
import { logWords } from '../../log/words';
import type { RunModel } from '../../model';
import { useSize } from '../../views/clocks';
import { Failure } from '../../views/Failure';
import { LogPane, type LogPaneHandle } from '../../views/LogPane';
import { FirstMetrics } from '../../views/Metrics';
import { Note } from '../../views/Notes';
import { useAfterDrawing } from '../../views/panel_focus';
import { FEW, Ranks } from '../../views/Ranks';
import type { StripProps } from '../../views/RankStrip';
import { hangs, Stacks, StallBanner, type StallProps } from '../../views/Stall';
import { COMMANDS, type IRunService } from '../tokens';
import { DashboardHead } from './DashboardHead';
import { DashboardPage } from './DashboardPage';
import { DashboardTabs, type DashboardTab } from './DashboardTabs';
import { useDeeds } from './deeds';
import { LabIcon } from './LabIcons';
import { useLook, useRuns } from './look';
import { useOlderLines } from './missing_lines';
import { RankTable } from './RankTable';

/** curves beside each other above the log */
const CURVES = 3;
const NONE: readonly number[] = [];

const LOG_KEYS: Readonly<Record<string, (log: LogPaneHandle | null) => void>> = {
  search: log => log?.focusSearch(),
  follow: log => log?.toggleFollow(),
  wrap: log => log?.toggleWrap(),
  'first error': log => log?.jumpToFirstError(),
};

export interface DashboardProps {
  runId: string;
  model: RunModel;
  service: IRunService;
  execute: (command: string, args: { runId?: string; line?: number }) => void;
  /** gets what shows a tab */
  onTabs?: (select: (tab: DashboardTab) => void) => void;
}

function pageNow(): number {
  return performance.now() / 1000;
}

export function Dashboard({ runId, model, service, execute, onTabs }: DashboardProps): ReactElement {
  const { client, stream, words, panelWords, language } = service;
  const version = useSyncExternalStore(model.subscribe, () => model.version);
  const { theme, look } = useLook();
  const runs = useRuns(service.runs);
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const narrow = size === 'narrow';
  const pane = useRef<LogPaneHandle>(null);
  const [tab, setTab] = useState<DashboardTab>('all');
  const [shownLog, setShownLog] = useState<number | null>(null);
  const [picked, setPicked] = useState<number | null | undefined>(undefined);
  const [line, setLine] = useState<number | null>(null);
  const afterDrawing = useAfterDrawing();
  const prefix = useId();
  const problem = useSyncExternalStore(
    changed => stream.onState(changed),
    () => stream.problemOf(runId) ?? (stream.open ? '' : 'offline'),
  );
  const { view, log } = model;
  const ranks = view?.ranks ?? [];
  const logTab = tab === 'all' || typeof tab === 'number';
  const label = view?.label ?? runs.row(runId)?.label ?? runId;

  useOlderLines(root, runId, model, stream, shownLog, version);

  const tabId = useCallback((of: DashboardTab) => `${prefix}-tab-${of}`, [prefix]);
  const panelId = useCallback(
    (of: DashboardTab) => `${prefix}-${of === 'all' || typeof of === 'number' ? 'log' : of}`,
    [prefix],
  );
  const select = useCallback((to: DashboardTab) => {
    setTab(to);
    if (to === 'all' || typeof to === 'number') {
      setShownLog(to === 'all' ? null : to);
    }
  }, []);
  useEffect(() => onTabs?.(select), [onTabs, select]);
  const open = useCallback(
    (rank: number) => {
      select(rank);
      afterDrawing(() => pane.current?.focusLog());
    },
    [select, afterDrawing],
  );
  const goToLine = useCallback(
    (to: number) => {
      setLine(to);
      setTab('cell');
      execute(COMMANDS.reveal, { runId, line: to });
    },
    [execute, runId],
  );
  const { stopping, notice, stop, copyText, interrupt } = useDeeds(service, runId, label);
  const stallActions = useMemo(() => ({ again: () => select('stacks'), interrupt }), [select, interrupt]);
  const board = useCallback(() => select('board'), [select]);

  const key = (event: KeyboardEvent): void => {
    const action = chord(event) || event.defaultPrevented ? null : actionOf(event);
    if (!action || action.kind === 'leave') {
      return;
    }
    const inLog = LOG_KEYS[action.kind];
    if (action.kind === 'rank') {
      select(action.rank < ranks.length ? action.rank : tab);
    } else if (action.kind === 'all' || action.kind === 'metrics' || action.kind === 'cell') {
      select(action.kind);
    } else if (inLog && logTab) {
      inLog(pane.current);
    } else if (inLog) {
      // a log that is not shown cannot take the focus
      select(shownLog ?? 'all');
      afterDrawing(() => inLog(pane.current));
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const errors = useMemo(
    () => new Map(ranks.flatMap(({ rank }) => (log.errors(rank) ? [[rank, log.errors(rank)] as const] : []))),
    // the version stands for all that the log holds
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [log, version],
  );
  const table = useCallback((few: StripProps) => <RankTable {...few} labWords={words} />, [words]);
  const tabs = ranks.length <= FEW ? ranks.map(({ rank }) => rank) : shownLog === null ? NONE : [shownLog];

  const stall: StallProps | null =
    view?.stall && hangs(view)
      ? {
          view,
          stall: view.stall,
          viewAt: model.viewAt,
          now: pageNow,
          words: panelWords,
          chinese: language === 'zh',
          actions: stallActions,
          onCellLine: goToLine,
        }
      : null;

  return (
    <section
      className="nbdist nbdist-dash"
      role="region"
      aria-label={panelWords.panel(label)}
      ref={root}
      data-size={size}
      data-theme={theme}
      onKeyDown={key}
    >
      {view ? (
        <DashboardHead
          view={view}
          viewAt={model.viewAt}
          now={pageNow}
          narrow={narrow}
          stopping={stopping}
          words={panelWords}
          labWords={words}
          roomy={size === 'wide'}
          onStop={stop}
          onCopy={copyText}
          onBoard={board}
          onReveal={() => execute(COMMANDS.reveal, { runId })}
          onAttach={() => execute(COMMANDS.attach, { runId })}
        />
      ) : (
        <p className="nbdist-empty">
          {runs.state === 'refused' ? words.refused(runs.refusal) : words.waiting}
        </p>
      )}
      {problem && problem !== 'offline' && <Note notice={{ text: words.gone(problem) }} />}
      {problem === 'offline' && view?.live && (
        <div className="nbdist-note nbdist-calm">{words.disconnected}</div>
      )}
      {notice && <Note notice={notice} />}
      {stall && <StallBanner {...stall} />}
      {view && (
        <div className="nbdist-dash-ranks">
          <Ranks
            view={view}
            selected={picked === undefined ? (view.failure?.rank ?? ranks[0]?.rank ?? null) : picked}
            utilisation={model.utilisation}
            waits={model.waits}
            size={size}
            words={panelWords}
            onSelect={setPicked}
            onOpen={open}
            few={table}
          />
        </div>
      )}
      {view?.failure && (
        <Failure
          failure={view.failure}
          cell={model.cell}
          words={panelWords}
          onCellLine={goToLine}
          onOpen={open}
        />
      )}
      {stall && (
        <div className="nbdist-dash-stall">
          <Stacks {...stall} />
        </div>
      )}
      {logTab && (
        <FirstMetrics
          charts={model.charts}
          most={CURVES}
          look={look}
          words={panelWords}
          onAll={() => select('metrics')}
        />
      )}
      <DashboardTabs
        ranks={tabs}
        errors={errors}
        current={tab}
        live={view?.live ?? false}
        narrow={narrow}
        words={words}
        panelWords={panelWords}
        tabId={tabId}
        panelId={panelId}
        onSelect={select}
      />
      <div
        className="nbdist-dash-pane"
        role="tabpanel"
        id={panelId('all')}
        aria-labelledby={tabId(shownLog ?? 'all')}
        hidden={!logTab}
      >
        <LogPane
          ref={pane}
          log={log}
          worldSize={ranks.length}
          selected={shownLog}
          words={logWords[language]}
          label={label}
          narrow={narrow}
          onCellLine={goToLine}
        />
        {shownLog !== null && (
          <a className="nbdist-whole-log nbdist-button" href={client.logUrl(runId, shownLog)} download>
            <LabIcon name="download" />
            {words.fullLog}
          </a>
        )}
      </div>
      {!logTab && (
        <div
          className="nbdist-dash-pane"
          role="tabpanel"
          id={panelId(tab)}
          aria-labelledby={tabId(tab)}
          data-page={tab}
        >
          <DashboardPage
            page={tab}
            runId={runId}
            model={model}
            service={service}
            look={look}
            line={line}
            onBoard={board}
            onCellLine={goToLine}
          />
        </div>
      )}
    </section>
  );
}
