/** A run of which the server tells: as a page of its own in the main area, or as the panel of its cell. */
import { type ReactElement, useCallback, useMemo, useRef, useState, useSyncExternalStore } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import type { RunModel } from '../../model/run_model';
import { messageOf } from '../../page/nodes';
import { askPage } from '../../page/actions';
import { Button, Icon } from '../../views/Marks';
import { type Notice, openBoard } from '../../views/Notes';
import { Panel } from '../../views/Panel';
import { type RunControls, type RunHost, RunPage } from '../../views/RunPage';
import { languageOf } from '../../words/languages';
import { words as panelWords } from '../../words/panel';
import { useOlderLines } from '../services/follower';
import { useRuns } from '../services/runs';
import { COMMANDS, type Execute, type IRunService } from '../tokens';
import { words } from '../../words/lab';
import { BoardPane, StacksPane } from './Panes';

interface ServedProps {
  runId: string;
  model: RunModel;
  service: IRunService;
}

interface DashboardProps extends ServedProps {
  execute: Execute;
  /** gets what shows a tab */
  onControls?: (page: RunControls) => void;
}

export function Dashboard(props: DashboardProps): ReactElement {
  const { runId, model, service, execute, onControls } = props;
  const { client } = service;
  const runs = useRuns(service.runs);
  const label = runs.row(runId)?.label ?? runId;
  const { live, served } = useServed(props);
  const host = useMemo<RunHost>(
    () => ({
      ...actionsOn(service, runId, 'dashboard', () => label),
      board: page => page.select('board'),
      again: page => page.select('stacks'),
      reveal: line => execute(COMMANDS.reveal, { runId, line }),
    }),
    [service, runId, label, execute],
  );
  const pages = [
    {
      tab: 'stacks',
      name: words.stacks,
      icon: 'stacks',
      // of a run that has ended no stack can be taken; those that are shown stay
      offered: live === true,
      draw: ({ goToLine }: RunControls) => <StacksPane client={client} runId={runId} onCellLine={goToLine} />,
    },
    {
      tab: 'board',
      name: words.board,
      icon: 'out',
      offered: true,
      draw: () => <BoardPane client={client} runIds={[runId]} />,
    },
  ] as const;
  const tools = [
    { icon: 'cell', label: words.reveal, command: COMMANDS.reveal, offered: true, bare: false },
    {
      icon: 'again',
      label: panelWords.runAgainWith,
      command: COMMANDS.againWith,
      offered: !live,
      bare: false,
    },
    { icon: 'compare', label: words.scale, command: COMMANDS.scale, offered: !live, bare: true },
    { icon: 'attach', label: words.attachHint, command: COMMANDS.attach, offered: true, bare: true },
  ] as const;
  return (
    <RunPage
      {...served}
      model={model}
      host={host}
      inCell={false}
      label={label}
      empty={
        <p className="nbdist-empty">
          {runs.state === 'refused' ? words.refused(runs.refusal) : words.waiting}
        </p>
      }
      tools={size =>
        tools
          .filter(({ offered }) => offered)
          .map(({ icon, label, command, bare }) => (
            <Button
              key={command}
              icon={icon}
              label={label}
              bare={bare || size !== 'wide'}
              onClick={() => execute(command, { runId })}
            />
          ))
      }
      curves={3}
      pages={pages}
      besideLog={rank => (
        <a className="nbdist-whole-log nbdist-button" href={client.logUrl(runId, rank)} download>
          <Icon name="download" />
          {words.fullLog}
        </a>
      )}
      onControls={onControls}
    />
  );
}

/** Draw the panel of a cell after the page was loaded again. `line`: what starts the run again. */
export function RestoredPanel(props: ServedProps & { line: () => string }): ReactElement {
  const { runId, model, service, line } = props;
  const { served } = useServed(props);
  const host = useMemo<RunHost>(() => {
    const { client } = service;
    const label = (): string => model.view?.label ?? runId;
    return {
      ...actionsOn(service, runId, 'page', label),
      again: () => void client.stacks(runId).catch(() => undefined),
      line,
      act: (action, from) => askPage({ action, runId, label: label(), from }),
      board: ({ notify }) => {
        const answer = client.board([runId]).then(
          url => ({ url, problem: '' }),
          (problem: unknown) => ({ url: '', problem: messageOf(problem) }),
        );
        void openBoard(answer, label(), notify);
      },
    };
  }, [service, runId, model, line]);
  // in a place of its own: what is JupyterLab's own child there fills it, without a border
  return (
    <div>
      <Panel {...served} run={model} host={host} />
    </div>
  );
}

/** Follow a run by the server; return what its page says of that, and whether the run is live, once that is known. */
function useServed({ runId, model, service: { stream } }: ServedProps) {
  const root = useRef<HTMLElement>(null);
  const [shown, onShown] = useState<number | null>(null);
  useOlderLines(root, runId, model, stream, shown);
  const subscribe = useCallback((changed: () => void) => stream.onState(changed), [stream]);
  const live = useSyncExternalStore(model.subscribe, () => model.view?.live);
  const gone = useSyncExternalStore(subscribe, () => stream.problemOf(runId));
  const connected = useSyncExternalStore(subscribe, () => stream.open);
  const problem = gone ? words.gone(gone) : !connected && live ? words.disconnected : '';
  const notes = problem && (
    <div className={gone ? 'nbdist-note' : 'nbdist-note nbdist-calm'} role="status">
      {problem}
    </div>
  );
  return { live, served: { root, onShown, connected, notes } };
}

/** Return the server's actions on a run, with their error messages. */
function actionsOn({ client }: IRunService, runId: string, from: string, label: () => string) {
  const tried = (act: Promise<void>, describe: (problem: string) => string): Promise<Notice | null> =>
    act.then(
      () => null,
      (problem: unknown) => ({ text: describe(messageOf(problem)) }),
    );
  return {
    stop: () => tried(client.stop(runId, from), problem => words.stopFailed(label(), problem)),
    interrupt: (rank: number, page: RunControls) =>
      void tried(client.interrupt(runId, rank), problem =>
        panelWords.named(panelWords.interrupt(rank), problem),
      ).then(problem => problem && page.notify(problem)),
    profiler: {
      record: async () => (await tried(client.profile(runId), String)) === null,
      trace: () => client.traceUrl(runId),
    },
    debug: (ranks: readonly number[], command: string) =>
      client.debug(runId, ranks, command).catch(() => null),
    report: () => client.report(runId, languageOf()).catch(() => null),
  };
}
