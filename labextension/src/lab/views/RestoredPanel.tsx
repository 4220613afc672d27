/** The panel of a cell, of which the server tells and not the kernel. */
import '../../styles/index.css';
import '../styles/lab.css';
import { useMemo, useRef, useSyncExternalStore, type ReactElement } from 'react';

import type { RunModel } from '../../model';
import { LivePanel, type Host } from '../../views/LivePanel';
import type { IRunService } from '../tokens';
import { useOlderLines } from './missing_lines';

interface RestoredPanelProps {
  runId: string;
  model: RunModel;
  service: IRunService;
}

export function RestoredPanel({ runId, model, service }: RestoredPanelProps): ReactElement {
  const { client, stream, language } = service;
  const root = useRef<HTMLDivElement>(null);
  const version = useSyncExternalStore(model.subscribe, () => model.version);
  useOlderLines(root, runId, model, stream, null, version);
  const host = useMemo<Host>(() => {
    const done = (deed: Promise<unknown>): Promise<boolean> =>
      deed.then(
        () => true,
        () => false,
      );
    return {
      language,
      foreground: () => false,
      now: () => performance.now() / 1000,
      stop: () => done(client.stop(runId, 'page')),
      stacks: () => void done(client.stacks(runId)),
      interrupt: rank => void done(client.interrupt(runId, rank)),
      board: () =>
        client.board([runId]).then(
          url => ({ kind: 'board', url, problem: '' }),
          (failure: unknown) => ({
            kind: 'board',
            url: '',
            problem: failure instanceof Error ? failure.message : String(failure),
          }),
        ),
    };
  }, [client, language, runId]);
  return (
    <div ref={root}>
      <LivePanel run={model} host={host} />
    </div>
  );
}
