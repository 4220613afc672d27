/** Panes of a run in JupyterLab beyond the panel's: VisualDL, and stacks taken on demand. */
import { type ReactElement, useCallback, useEffect, useState } from 'react';

import { messageOf } from '../../page/nodes';
import type { StallView } from '../../protocol/run';
import { Icon } from '../../views/Marks';
import { webAddress } from '../../views/Notes';
import { Stacks } from '../../views/Stall';
import { words as panelWords } from '../../words/panel';
import type { Client } from '../services/client';
import { words } from '../../words/lab';

/** Draw VisualDL over some runs in a frame, started when the pane opens. */
export function BoardPane({ client, runIds }: { client: Client; runIds: readonly string[] }): ReactElement {
  const [answer, setAnswer] = useState<{ url: string } | { problem: string } | null>(null);
  const ids = runIds.join();
  useEffect(() => {
    let here = true;
    const show = (shown: { url: string } | { problem: string }): void => void (here && setAnswer(shown));
    client.board(ids.split(',')).then(
      url => show(webAddress(url) ? { url } : { problem: url }),
      (problem: unknown) => show({ problem: messageOf(problem) }),
    );
    return () => {
      here = false;
    };
  }, [client, ids]);
  if (answer === null || 'problem' in answer) {
    return (
      <p className="nbdist-empty" role="status">
        {answer === null ? words.boardStarting : panelWords.boardProblem(answer.problem)}
      </p>
    );
  }
  return (
    <div className="nbdist-board">
      <div className="nbdist-row nbdist-tools">
        <span className="nbdist-space" />
        <a className="nbdist-button" href={answer.url} target="_blank" rel="noreferrer">
          <Icon name="out" />
          {panelWords.openBoard}
        </a>
      </div>
      <iframe src={answer.url} title={words.board} />
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
  const [taken, setTaken] = useState<StallView | string | null>(null);
  const take = useCallback(() => {
    setTaken(null);
    client.stacks(runId).then(setTaken, (problem: unknown) => setTaken(messageOf(problem)));
  }, [client, runId]);
  // eslint-disable-next-line react-hooks/set-state-in-effect
  useEffect(take, [take]);
  const [stall, problem] = typeof taken === 'string' ? [null, taken] : [taken, ''];
  return (
    <div className="nbdist-stacks">
      <Stacks stall={stall} again={take} taking={taken === null} onCellLine={onCellLine}>
        {!stall && <p className="nbdist-empty">{problem || words.takingStacks}</p>}
      </Stacks>
    </div>
  );
}
