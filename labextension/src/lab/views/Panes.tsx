/** Panes of a run in JupyterLab beyond the panel's: VisualDL, and stacks taken on demand. */
import { type ReactElement, useCallback, useState } from 'react';

import { useAnswer } from '../../views/hooks';
import { Icon } from '../../views/Marks';
import { webAddress } from '../../views/Notes';
import { Stacks } from '../../views/Stall';
import { words as panelWords } from '../../words/panel';
import type { Client } from '../services/client';
import { words } from '../../words/lab';

/** Draw VisualDL over some runs in a frame, started when the pane opens. */
export function BoardPane({ client, runIds }: { client: Client; runIds: readonly string[] }): ReactElement {
  const ids = runIds.join();
  const { answer: url, problem } = useAnswer(useCallback(() => client.board(ids.split(',')), [client, ids]));
  if (url === null || !webAddress(url)) {
    return (
      <p className="nbdist-empty" role="status">
        {url || problem ? panelWords.boardProblem(url ?? problem) : words.boardStarting}
      </p>
    );
  }
  return (
    <div className="nbdist-board">
      <div className="nbdist-row nbdist-tools">
        <span className="nbdist-space" />
        <a className="nbdist-button" href={url} target="_blank" rel="noreferrer">
          <Icon name="out" />
          {panelWords.openBoard}
        </a>
      </div>
      <iframe src={url} title={words.board} />
    </div>
  );
}

interface StacksPaneProps {
  client: Client;
  runId: string;
  onCellLine: (line: number) => void;
}

/** Draw the stacks of all ranks: taken when the pane opens, and again on demand. */
export function StacksPane({ client, runId, onCellLine }: StacksPaneProps): ReactElement {
  const [time, setTime] = useState(0);
  const take = useCallback(() => client.stacks(runId), [client, runId]);
  const { answer: stall, problem, asking } = useAnswer(take, time);
  return (
    <div className="nbdist-stacks">
      <Stacks stall={stall} again={() => setTime(time + 1)} taking={asking} onCellLine={onCellLine}>
        {(problem || !stall) && <p className="nbdist-empty">{problem || words.takingStacks}</p>}
      </Stacks>
    </div>
  );
}
