/** A Python program as coloured lines with their numbers: keywords, texts, numbers and comments, no more. */
import { type ReactElement, useLayoutEffect, useMemo, useRef } from 'react';

import { words } from '../words/panel';

interface Piece {
  text: string;
  kind: '' | 'keyword' | 'string' | 'number' | 'comment';
}

const KEYWORDS =
  'False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from' +
  '|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield';
const PIECES = new RegExp(
  [
    /(?<string>"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/.source,
    /(?<comment>#.*)/.source,
    `(?<keyword>\\b(?:${KEYWORDS})\\b)`,
    /(?<number>\b\d[\w.]*)/.source,
  ].join('|'),
  'g',
);

export function tokenLines(source: string): readonly (readonly Piece[])[] {
  const lines: Piece[][] = [[]];
  const add = (text: string, kind: Piece['kind']): void => {
    text.split('\n').forEach((part, index) => {
      if (index) {
        lines.push([]);
      }
      if (part) {
        lines.at(-1)!.push({ text: part, kind });
      }
    });
  };
  let end = 0;
  for (const match of source.matchAll(PIECES)) {
    const kind = Object.entries(match.groups!).find(([, text]) => text !== undefined)![0];
    add(source.slice(end, match.index), '');
    add(match[0], kind as Piece['kind']);
    end = match.index + match[0].length;
  }
  add(source.slice(end), '');
  return lines;
}

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
  const lines = useMemo(() => tokenLines(source), [source]);
  // the magic's line, which is no part of the program, is an empty one in its place
  const begin = Math.max(
    0,
    lines.findIndex(pieces => pieces.some(({ text }) => text.trim())),
  );
  const from = around === undefined || line === null ? begin : Math.max(begin, line - 1 - around);
  const until = around === undefined || line === null ? lines.length : line + around;
  return (
    <div className="nbdist-code">
      {lines.slice(from, until).map((pieces, index) => {
        const number = from + index + first;
        return (
          <div
            key={number}
            className="nbdist-code-line"
            aria-current={number === line ? 'location' : undefined}
          >
            <span className="nbdist-code-number">{number}</span>
            <span>
              {pieces.map(({ text, kind }, at) => (
                <span key={at} data-kind={kind || undefined}>
                  {text}
                </span>
              ))}
            </span>
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
