/** The colours and styles of a line, from its SGR sequences (ECMA-48, 8.3.117, and colours beyond the 16 as xterm
 * writes them). All other sequences are left out. */
import { CONTROL, plain, SEQUENCE } from './ansi';

export interface Span {
  readonly text: string;
  /** classes, apart by spaces; empty for none */
  readonly classes: string;
  /** a CSS colour; empty for none */
  readonly colour: string;
  readonly background: string;
}

interface Style {
  colour: string;
  background: string;
  readonly classes: Set<string>;
}

const STYLES = ['bold', 'dim', 'italic', 'underline'].map(name => `nbdist-ansi-${name}`);
const SGR = /^\x1b\[([\d;]*)m$/;
const CUBE = [0, 95, 135, 175, 215, 255];

/** Return `line` in spans; their texts together are the line's plain text. */
export function spansOf(line: string): Span[] {
  if (!line.includes('\x1b')) {
    return [{ text: plain(line), classes: '', colour: '', background: '' }];
  }
  const style: Style = { colour: '', background: '', classes: new Set() };
  const spans: Span[] = [];
  let from = 0;
  const add = (end: number): void => {
    const text = line.slice(from, end).replace(CONTROL, '');
    if (text) {
      // the 16 colours are chosen to be read on the page's background, so that is what is read on them
      const colour = style.background.startsWith('var') ? 'var(--nb-bg)' : style.colour;
      spans.push({ text, ...style, colour, classes: [...style.classes].join(' ') });
    }
  };
  for (const { 0: sequence, index } of line.matchAll(SEQUENCE)) {
    add(index);
    from = index + sequence.length;
    const parameters = SGR.exec(sequence)?.[1];
    if (parameters !== undefined) {
      apply(parameters.split(';').map(Number), style);
    }
  }
  add(line.length);
  return spans;
}

function apply(codes: number[], style: Style): void {
  for (let code = codes.shift(); code !== undefined; code = codes.shift()) {
    const [tens, digit] = [Math.floor(code / 10), code % 10];
    if (code === 0) {
      style.colour = style.background = '';
      style.classes.clear();
    } else if (code <= STYLES.length) {
      style.classes.add(STYLES[code - 1]!);
    } else if (code === 22) {
      style.classes.delete(STYLES[0]!);
      style.classes.delete(STYLES[1]!);
    } else if (tens === 2) {
      style.classes.delete(STYLES[digit - 1] ?? '');
    } else if (tens === 3 || tens === 9) {
      style.colour = colourOf(digit, tens === 9, codes);
    } else if (tens === 4 || tens === 10) {
      style.background = colourOf(digit, tens === 10, codes);
    }
  }
}

/** Return a colour by its digit; that of 8 is in the next codes: `5, number in the palette` or `2, red, green, blue`. */
function colourOf(digit: number, bright: boolean, codes: number[]): string {
  if (digit === 9) {
    return '';
  }
  if (digit < 8 || bright) {
    return palette(digit + (bright ? 8 : 0));
  }
  return codes.shift() === 5 ? palette(codes.shift() ?? 0) : `rgb(${codes.splice(0, 3).join(', ')})`;
}

/** Return a colour of the palette: the 16, a cube of six levels, then greys. */
function palette(number: number): string {
  if (number < 16) {
    return `var(--nb-ansi-${number})`;
  }
  const grey = 8 + (number - 232) * 10;
  const levels = [36, 6, 1].map(step => CUBE[Math.floor((number - 16) / step) % 6]!);
  return `rgb(${(number < 232 ? levels : [grey, grey, grey]).join(', ')})`;
}
