/** VisualDL over some runs, in a frame. It is started when the pane is opened. */
import { useEffect, useState, type ReactElement } from 'react';

import type { Client } from '../client';
import type { LabWords } from '../words';
import { LabIcon } from './LabIcons';

interface BoardProps {
  client: Client;
  runIds: readonly string[];
  words: LabWords;
  openBoard: string;
}

export function BoardPane({ client, runIds, words, openBoard }: BoardProps): ReactElement {
  const [answer, setAnswer] = useState<{ url: string } | { problem: string } | null>(null);
  const asked = runIds.join();
  useEffect(() => {
    let here = true;
    const show = (shown: { url: string } | { problem: string }): void => void (here && setAnswer(shown));
    client.board(asked.split(',')).then(
      url => show({ url }),
      (problem: unknown) => show({ problem: problem instanceof Error ? problem.message : String(problem) }),
    );
    return () => {
      here = false;
    };
  }, [client, asked]);
  if (answer === null || 'problem' in answer) {
    return (
      <p className="nbdist-empty" role="status">
        {answer === null ? words.boardStarting : words.boardFailed(answer.problem)}
      </p>
    );
  }
  return (
    <div className="nbdist-board">
      <div className="nbdist-tools">
        <span className="nbdist-space" />
        <a className="nbdist-button" href={answer.url} target="_blank" rel="noreferrer">
          <LabIcon name="board" />
          {openBoard}
        </a>
      </div>
      <iframe src={answer.url} title={words.board} />
    </div>
  );
}
