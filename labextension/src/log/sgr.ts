/** The colours and styles of a line, from its SGR sequences (ECMA-48, 8.3.117; colours beyond the 16: ITU-T T.416,
 * 13.1.8, and as xterm writes them). All other sequences are left out. */
import { CONTROL, plain, SEQUENCE } from './ansi';

export interface Span {
  readonly text: string;
  /** classes, apart by spaces; empty for none */
  readonly classes: string;
  /** a CSS colour; empty for none */
  readonly colour: string;
  readonly background: string;
}

/** One of the 16 colours by its number, any other as CSS; null for the default. */
type Colour = number | string | null;

interface Style {
  colour: Colour;
  background: Colour;
  readonly names: Set<string>;
}

type Names = Readonly<Record<number, string>>;

const STYLES: Names = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strikethrough' };
const ENDS: Names = { 22: 'bold dim', 23: 'italic', 24: 'underline', 27: 'inverse', 29: 'strikethrough' };
const SGR = /^\x1b\[([\d;:]*)m$/;
const CUBE = [0, 95, 135, 175, 215, 255];

/** Return `line` in spans; their texts together are the line's plain text. */
export function spansOf(line: string): Span[] {
  if (!line.includes('\x1b')) {
    return [{ text: plain(line), classes: '', colour: '', background: '' }];
  }
  const style: Style = { colour: null, background: null, names: new Set() };
  const spans: Span[] = [];
  let from = 0;
  const add = (end: number): void => {
    const text = line.slice(from, end).replace(CONTROL, '');
    if (text) {
      spans.push({ text, ...drawn(style) });
    }
  };
  for (const { 0: sequence, index } of line.matchAll(SEQUENCE)) {
    add(index);
    from = index + sequence.length;
    const parameters = SGR.exec(sequence)?.[1];
    if (parameters !== undefined) {
      apply(parameters, style);
    }
  }
  add(line.length);
  return spans;
}

function apply(parameters: string, style: Style): void {
  // a parameter may have parts, which colons divide; an empty one is 0
  const codes = parameters.split(';').map(parameter => parameter.split(':').map(Number));
  for (let at = 0; at < codes.length; at++) {
    let [code = 0, ...parts] = codes[at]!;
    if ((code === 38 || code === 48 || code === 58) && !parts.length) {
      // as xterm has it, the parts are the next parameters
      const count = codes[at + 1]?.[0] === 2 ? 4 : 2;
      parts = codes.slice(at + 1, at + 1 + count).map(([part]) => part!);
      at += count;
    }
    if (code === 4 && parts[0] === 0) {
      code = 24;
    }
    if (code === 0) {
      style.colour = style.background = null;
      style.names.clear();
    }
    STYLES[code]?.split(' ').forEach(name => style.names.add(name));
    ENDS[code]?.split(' ').forEach(name => style.names.delete(name));
    if ((code >= 30 && code < 40) || (code >= 90 && code < 98)) {
      style.colour = colourOf(code, parts, style.colour);
    } else if ((code >= 40 && code < 50) || (code >= 100 && code < 108)) {
      style.background = colourOf(code - 10, parts, style.background);
    }
  }
}

/** Return the colour of a code for text. That of 38 is in its parts: `5, number in the palette` or `2, red, green,
 * blue`, where a colour space may stand before red; the colour `before` where they are none. */
function colourOf(code: number, [kind, ...values]: readonly number[], before: Colour): Colour {
  if (code !== 38) {
    return code === 39 ? null : code >= 90 ? code - 82 : code - 30;
  }
  const number = values[0] ?? 256;
  if (kind === 5 && number < 256) {
    return palette(number);
  }
  const rgb = values.length > 3 ? values.slice(1, 4) : values;
  return kind === 2 && rgb.length === 3 && rgb.every(value => value < 256)
    ? `rgb(${rgb.join(', ')})`
    : before;
}

/** Return a colour of the palette: the 16, a cube of six levels, then greys. */
function palette(number: number): Colour {
  if (number < 16) {
    return number;
  }
  const grey = 8 + (number - 232) * 10;
  const levels = [36, 6, 1].map(step => CUBE[Math.floor((number - 16) / step) % 6]!);
  return `rgb(${(number < 232 ? levels : [grey, grey, grey]).join(', ')})`;
}

function drawn({ names, ...style }: Style): Omit<Span, 'text'> {
  const inverse = names.has('inverse');
  const background = inverse ? (style.colour ?? 'var(--nb-fg)') : style.background;
  const colour = inverse ? (style.background ?? 'var(--nb-bg)') : style.colour;
  // the 16 colours are chosen to be read on the page's background, so that is what is read on them
  const onOne = [background, inverse && colour].some(each => typeof each === 'number');
  const classes = [...names].filter(name => name !== 'inverse');
  return {
    classes: classes.map(name => `nbdist-ansi-${name}`).join(' '),
    colour: onOne ? 'var(--nb-bg)' : cssOf(colour),
    background: cssOf(background),
  };
}

function cssOf(colour: Colour): string {
  return typeof colour === 'number' ? `var(--nb-ansi-${colour})` : (colour ?? '');
}
