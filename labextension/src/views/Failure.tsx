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
  const { rank, line, message, fileLine, source } = failure;
  const headline = words.told(failure.headline);
  const hints = [
    [words.cause, words.told(failure.cause)],
    [words.fix, words.told(failure.fix)],
  ] as const;
  return (
    <div className="nbdist-failure" role="alert">
      <div className="nbdist-row">
        <Badge rank={rank} />
        <b>{headline.charAt(0).toUpperCase() + headline.slice(1)}</b>
      </div>
      {source && fileLine !== null && <Code source={source} line={fileLine} first={fileLine} />}
      {!source && cell !== null && line !== null && <Code source={cell} line={line} around={2} />}
      {message && <p className="nbdist-error-line">{message}</p>}
      {failure.cause.en && (
        <dl className="nbdist-hint">
          {hints.map(([name, text]) => (
            <div key={name}>
              <dt className="nbdist-quiet">{name}</dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      )}
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
