/** Lines of the cell, with their numbers. */
import { useLayoutEffect, useMemo, useRef, type ReactElement } from 'react';
import { linesOf, type Piece } from '../python';
import type { Words } from '../words';

interface CodeProps {
  source: string;
  /** the line that is meant; of a cell 1 is the magic's */
  line: number | null;
  /** how many lines around it; all when left out */
  around?: number;
  /** the number of the source's first line, where it is a part of a file */
  first?: number;
}

export function Code({ source, line, around, first = 1 }: CodeProps): ReactElement {
  const lines = useMemo(() => linesOf(source), [source]);
  // the magic's line, which is no part of the program, is an empty one in its place
  const begin = Math.max(
    0,
    lines.findIndex(pieces => pieces.some(({ text }) => text.trim())),
  );
  const from = around === undefined || line === null ? begin : Math.max(begin, line - 1 - around);
  const until = around === undefined || line === null ? lines.length : line + around;
  return (
    <div className="nbdist-code">
      {lines.slice(from, until).map((pieces, index) => (
        <CodeLine
          key={from + index}
          number={from + index + first}
          pieces={pieces}
          marked={from + index + first === line}
        />
      ))}
    </div>
  );
}

function CodeLine(props: { number: number; pieces: readonly Piece[]; marked: boolean }): ReactElement {
  return (
    <div className="nbdist-code-line" aria-current={props.marked ? 'location' : undefined}>
      <span className="nbdist-code-number">{props.number}</span>
      <span>
        {props.pieces.map(({ text, kind }, index) =>
          kind ? (
            <i key={index} data-kind={kind}>
              {text}
            </i>
          ) : (
            text
          ),
        )}
      </span>
    </div>
  );
}

interface CellPaneProps {
  source: string | null;
  line: number | null;
  words: Words;
}

/** The whole program of the run; opens at the marked line. */
export function CellPane({ source, line, words }: CellPaneProps): ReactElement {
  const pane = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const marked = pane.current?.querySelector<HTMLElement>('[aria-current]');
    if (pane.current && marked) {
      pane.current.scrollTop = marked.offsetTop - pane.current.clientHeight / 2;
    }
  }, [line, source]);
  if (source === null) {
    return <p className="nbdist-empty">{words.noCell}</p>;
  }
  return (
    // a region that scrolls can be reached with the keyboard
    <div className="nbdist-cell" ref={pane} tabIndex={0} role="region" aria-label={words.cell}>
      <Code source={source} line={line} />
    </div>
  );
}
