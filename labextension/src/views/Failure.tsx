/** The first failure: who, what, where, and the ways to it. */
import { memo, type ReactElement } from 'react';
import type { FailureView } from '../protocol';
import type { Words } from '../words';
import { Code } from './Code';
import { Badge, Icon } from './Marks';

interface FailureProps {
  failure: FailureView;
  cell: string | null;
  words: Words;
  onCellLine: (line: number) => void;
  onOpen: (rank: number) => void;
}

export const Failure = memo(function Failure({
  failure,
  cell,
  words,
  onCellLine,
  onOpen,
}: FailureProps): ReactElement {
  const { rank, line, message, file, fileLine, source } = failure;
  const kind = kindOf(failure.headline);
  return (
    <div className="nbdist-failure" role="alert">
      <div className="nbdist-row">
        <Badge rank={rank} />
        <b>
          {words.failureTitle(rank)}
          {kind && ' · '}
          {kind && <code>{kind}</code>}
          {fileLine !== null ? ` ${words.atLine(fileLine, file)}` : line !== null && ` ${words.atLine(line)}`}
        </b>
      </div>
      {source && fileLine !== null && <Code source={source} line={fileLine} first={fileLine} />}
      {!source && cell !== null && line !== null && <Code source={cell} line={line} around={2} />}
      {message && <p className="nbdist-error-line">{message}</p>}
      <div className="nbdist-row">
        {line !== null && (
          <button type="button" className="nbdist-button" onClick={() => onCellLine(line)}>
            <Icon name="cell" />
            {words.toCell(line)}
          </button>
        )}
        <button type="button" className="nbdist-button" onClick={() => onOpen(rank)}>
          <Icon name="lines" />
          {words.toLog(rank)}
        </button>
      </div>
    </div>
  );
});

/** What is left of "rank 1 failed first: ValueError at line 14 of the cell" when rank and line are said
 * in the reader's language. */
export function kindOf(headline: string): string {
  return headline.replace(/^rank \d+ failed first[:·\s]*/i, '').replace(/ at line \d+( of .*)?$/, '');
}
