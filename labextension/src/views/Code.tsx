/** A program as lines with their numbers. */
import { type ReactElement, useLayoutEffect, useRef } from 'react';

import { words } from '../words/panel';

interface CodeProps {
  source: string;
  /** the line that is meant; of a cell 1 is the magic's */
  line: number | null;
  /** number of lines around it; all when left out */
  around?: number;
  /** the number of the source's first line, where it is a part of a file */
  first?: number;
}

export function Code({ source, line, around, first = 1 }: CodeProps): ReactElement {
  const lines = source.split('\n');
  // the magic's line, which is no part of the program, is an empty one in its place
  const begin = Math.max(
    0,
    lines.findIndex(text => text.trim()),
  );
  const from = around === undefined || line === null ? begin : Math.max(begin, line - 1 - around);
  const until = around === undefined || line === null ? lines.length : line + around;
  return (
    <div className="nbdist-code">
      {lines.slice(from, until).map((text, index) => {
        const number = from + index + first;
        return (
          <div
            key={number}
            className="nbdist-code-line"
            aria-current={number === line ? 'location' : undefined}
          >
            <span className="nbdist-code-number">{number}</span>
            <span>{text}</span>
          </div>
        );
      })}
    </div>
  );
}

/** Draw the whole program of the run; opens at the marked line. */
export function CellPane({ source, line }: { source: string | null; line: number | null }): ReactElement {
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
