/** A Python program as lines of coloured pieces: keywords, texts, numbers and comments, no more. */

export interface Piece {
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

export function linesOf(source: string): readonly (readonly Piece[])[] {
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
