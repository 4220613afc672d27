/** Where every rank is now: taken when the pane is opened, and again on demand. */
import { useCallback, useEffect, useState, type ReactElement } from 'react';

import { clock } from '../../numbers';
import type { StallView } from '../../protocol';
import { Group } from '../../views/Stall';
import type { IRunService } from '../tokens';
import { LabButton } from './LabIcons';

interface PaneProps {
  runId: string;
  service: IRunService;
  onCellLine: (line: number) => void;
}

export function StacksPane({ runId, service, onCellLine }: PaneProps): ReactElement {
  const { client, words, panelWords, language } = service;
  const [taken, setTaken] = useState<StallView | { problem: string } | null>(null);
  const [threads, setThreads] = useState(false);
  const take = useCallback(() => {
    setTaken(null);
    client
      .stacks(runId)
      .then(setTaken, (problem: unknown) =>
        setTaken({ problem: problem instanceof Error ? problem.message : String(problem) }),
      );
  }, [client, runId]);
  // eslint-disable-next-line react-hooks/set-state-in-effect
  useEffect(take, [take]);
  const stacks = taken !== null && 'groups' in taken ? taken : null;
  return (
    <div className="nbdist-stacks">
      <div className="nbdist-tools">
        <b>{panelWords.stacks}</b>
        {stacks && (
          <span className="nbdist-quiet">
            {panelWords.stacksTaken(clock(stacks.taken ?? 0), stacks.groups.length)}
          </span>
        )}
        <span className="nbdist-space" />
        <button
          type="button"
          className="nbdist-button"
          aria-pressed={threads}
          onClick={() => setThreads(!threads)}
        >
          {panelWords.allThreads}
        </button>
        <LabButton icon="refresh" label={panelWords.takeAgain} disabled={taken === null} onClick={take} />
      </div>
      {taken === null && <p className="nbdist-empty">{words.takingStacks}</p>}
      {taken !== null && 'problem' in taken && <p className="nbdist-empty">{taken.problem}</p>}
      {stacks?.groups.map(group => (
        <Group
          key={group.ranks.join()}
          group={group}
          threads={threads}
          words={panelWords}
          chinese={language === 'zh'}
          onCellLine={onCellLine}
        />
      ))}
    </div>
  );
}
