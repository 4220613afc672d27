/** What can be done with the runs that are selected in the sidebar. */
import type { ReactElement } from 'react';

import type { RunRow } from '../rows';
import { COMMANDS } from '../tokens';
import type { LabWords } from '../words';
import { LabButton } from './LabIcons';

interface ActionsProps {
  chosen: readonly RunRow[];
  words: LabWords;
  execute: (command: string, args: { runId?: string; runIds?: string[] }) => void;
  onClear: () => void;
}

export function RunActions({ chosen, words, execute, onClear }: ActionsProps): ReactElement | null {
  const [row] = chosen;
  if (!row) {
    return null;
  }
  if (chosen.length > 1) {
    const runIds = chosen.map(each => each.runId);
    return (
      <div className="nbdist-side-actions" role="toolbar" aria-label={words.selected(chosen.length)}>
        <LabButton
          icon="compare"
          label={words.compare(chosen.length)}
          onClick={() => execute(COMMANDS.compare, { runIds })}
        />
        <span className="nbdist-space" />
        <LabButton icon="clear" label={words.clear} bare onClick={onClear} />
      </div>
    );
  }
  const { runId } = row;
  const act = (command: string) => () => execute(command, { runId });
  return (
    <div className="nbdist-side-actions" role="toolbar" aria-label={row.label}>
      <LabButton icon="open" label={words.open} title={words.open} onClick={act(COMMANDS.open)} />
      <LabButton icon="attach" label={words.attach} title={words.attachHint} onClick={act(COMMANDS.attach)} />
      <span className="nbdist-space" />
      {row.notebook && <LabButton icon="cell" label={words.reveal} bare onClick={act(COMMANDS.reveal)} />}
      {row.live ? (
        <LabButton icon="stop" label={words.stop} bare onClick={act(COMMANDS.stop)} />
      ) : (
        <LabButton icon="remove" label={words.delete} bare onClick={act(COMMANDS.remove)} />
      )}
    </div>
  );
}
