/** A run of which the server tells: as a page of its own in the main area, or as the panel of its cell. */
import { type ReactElement, useMemo, useRef, useState, useSyncExternalStore } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import type { RunModel } from '../../model/run_model';
import { messageOf } from '../../page/nodes';
import { askPage } from '../../page/actions';
import { Button, Icon } from '../../views/Marks';
import { cannotStop, Note, type Notice, openBoard, useSilence } from '../../views/Notes';
import { Panel } from '../../views/Panel';
import { type RunControls, type RunHost, RunPage } from '../../views/RunPage';
import { languageOf } from '../../words/languages';
import { words as panelWords } from '../../words/panel';
import { useOlderLines } from '../services/follower';
import { useRuns } from '../services/runs';
import type { Stream } from '../services/stream';
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
  const { client, stream } = service;
  const runs = useRuns(service.runs);
  const root = useRef<HTMLElement>(null);
  const [shown, setShown] = useState<number | null>(null);
  useOlderLines(root, runId, model, stream, shown);
  const label = runs.row(runId)?.label ?? runId;
  const host = useRunActions(service, runId, label, execute);
  const live = useSyncExternalStore(model.subscribe, () => model.view?.live ?? false);
  const { view, viewAt, heardAt } = model;
  const open = useStream(stream, () => stream.open);
  const silent = useSilence(model) && !open;
  const pages = [
    {
      tab: 'stacks',
      name: words.stacks,
      icon: 'stacks',
      // of a run that has ended no stack can be taken; those that are shown stay
      offered: live,
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
  return (
    <RunPage
      model={model}
      host={host}
      root={root}
      inCell={false}
      label={label}
      empty={
        <p className="nbdist-empty">
          {runs.state === 'refused' ? words.refused(runs.refusal) : words.waiting}
        </p>
      }
      tools={size => (
        <>
          <Button
            icon="cell"
            label={words.reveal}
            bare={size !== 'wide'}
            onClick={() => execute(COMMANDS.reveal, { runId })}
          />
          {!live && (
            <Button
              icon="again"
              label={panelWords.runAgainWith}
              bare={size !== 'wide'}
              onClick={() => execute(COMMANDS.againWith, { runId })}
            />
          )}
          <Button
            icon="attach"
            label={words.attach}
            title={words.attachHint}
            bare
            onClick={() => execute(COMMANDS.attach, { runId })}
          />
        </>
      )}
      notes={<Connection runId={runId} stream={stream} live={live} />}
      knownUntil={silent && view ? view.elapsed + Math.max(0, heardAt - viewAt) : undefined}
      curves={3}
      pages={pages}
      besideLog={rank => (
        <a className="nbdist-whole-log nbdist-button" href={client.logUrl(runId, rank)} download>
          <Icon name="download" />
          {words.fullLog}
        </a>
      )}
      onShown={setShown}
      onControls={onControls}
    />
  );
}

/** Return what `read` reads of the stream's state now. */
function useStream<Value>(stream: Stream, read: () => Value): Value {
  return useSyncExternalStore(changed => stream.onState(changed), read);
}

/** Draw the problem of the connection to the server, if there is one. */
function Connection(props: { runId: string; stream: Stream; live: boolean }): ReactElement | null {
  const { runId, stream, live } = props;
  const gone = useStream(stream, () => stream.problemOf(runId));
  const open = useStream(stream, () => stream.open);
  if (gone) {
    return <Note notice={{ text: words.gone(gone) }} />;
  }
  return !open && live ? <div className="nbdist-note nbdist-calm">{words.disconnected}</div> : null;
}

/** Return a dashboard's actions on its run, with their error messages. */
function useRunActions(service: IRunService, runId: string, label: string, execute: Execute): RunHost {
  const { client } = service;
  return useMemo(() => {
    const tried = (act: Promise<void>, describe: (problem: string) => string): Promise<Notice | null> =>
      act.then(
        () => null,
        (problem: unknown) => ({ text: describe(messageOf(problem)) }),
      );
    return {
      stop: () => tried(client.stop(runId, 'dashboard'), problem => words.stopFailed(label, problem)),
      board: page => page.select('board'),
      again: page => page.select('stacks'),
      interrupt: (rank, page) =>
        void tried(client.interrupt(runId, rank), problem =>
          panelWords.named(panelWords.interrupt(rank), problem),
        ).then(problem => problem && page.notify(problem)),
      report: () => client.report(runId, languageOf()).catch(() => null),
      reveal: line => execute(COMMANDS.reveal, { runId, line }),
    };
  }, [client, runId, label, execute]);
}

/** Draw the panel of a cell after the page was loaded again. `line`: what starts the run again. */
export function RestoredPanel({
  runId,
  model,
  service,
  line,
}: ServedProps & { line: () => string }): ReactElement {
  const { client, stream } = service;
  const root = useRef<HTMLElement>(null);
  const [shown, setShown] = useState<number | null>(null);
  useOlderLines(root, runId, model, stream, shown);
  const host = useMemo<RunHost>(() => {
    const label = (): string => model.view?.label ?? runId;
    return {
      stop: () =>
        client.stop(runId, 'page').then(
          () => null,
          () => cannotStop(label()),
        ),
      again: () => void client.stacks(runId).catch(() => undefined),
      interrupt: rank => void client.interrupt(runId, rank).catch(() => undefined),
      report: () => client.report(runId, languageOf()).catch(() => null),
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
  }, [client, runId, model, line]);
  const live = useSyncExternalStore(model.subscribe, () => model.view?.live ?? true);
  const open = useStream(stream, () => stream.open);
  // in a place of its own: what is JupyterLab's own child there fills it, without a border
  return (
    <div>
      <Panel
        run={model}
        host={host}
        root={root}
        onShown={setShown}
        served={{ open, notes: <Connection runId={runId} stream={stream} live={live} /> }}
      />
    </div>
  );
}
