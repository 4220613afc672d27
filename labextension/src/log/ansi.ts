/** A line's text as the log needs it: without escape sequences, in columns, in colours, and whether it tells of an error. */
import Anser, { type AnserJsonEntry } from 'anser';

/** characters of an over-long line that are shown in its row, and from how many on a line is over-long */
export const SHOWN_OF_LONG = 1000;
export const LONG = 2000;
const CHIP_COLUMNS = 20;

// CSI sequences (colours, cursor), OSC sequences (titles, links), two-character escapes. None reaches
// over a line's end: whole blocks are searched at once.
const SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g;
const CONTROL_BUT_ESCAPE = /[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;
const ANY_CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/;
const COLOUR = /^\x1b\[[\d;]*m$/;
const STRAY_ESCAPE = /\x1b(?!\[[\d;]*m)/g;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Return `text` (one line or several) without escape sequences and control characters. */
export function plain(text: string): string {
  return ANY_CONTROL.test(text) ? text.replace(SEQUENCE, '').replace(CONTROL, '') : text;
}

/** Return `line` with its colour sequences and no other. */
function onlyColours(line: string): string {
  return line
    .replace(SEQUENCE, sequence => (COLOUR.test(sequence) ? sequence : ''))
    .replace(CONTROL_BUT_ESCAPE, '')
    .replace(STRAY_ESCAPE, '');
}

/** Return the columns that plain `text` takes in a fixed-width font. */
export function displayWidth(text: string): number {
  if (PRINTABLE.test(text)) {
    return text.length;
  }
  let columns = 0;
  for (const character of text) {
    columns += character === '\t' ? 8 - (columns % 8) : widthOf(character.codePointAt(0)!);
  }
  return columns;
}

/** Return the columns that the row of plain `text` takes. */
export function shownColumns(text: string): number {
  return text.length > LONG ? displayWidth(text.slice(0, SHOWN_OF_LONG)) + CHIP_COLUMNS : displayWidth(text);
}

/** Return 2 for East Asian wide characters and emoji, 0 for what is drawn over the character before. */
function widthOf(code: number): number {
  if (code < 0x300) {
    return 1;
  }
  const wide =
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff01 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1f64f) ||
    (code >= 0x1f680 && code <= 0x1f6ff) ||
    (code >= 0x1f900 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd);
  if (wide) {
    return 2;
  }
  const over =
    code <= 0x36f ||
    (code >= 0x1ab0 && code <= 0x1aff) ||
    (code >= 0x1dc0 && code <= 0x1dff) ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x20d0 && code <= 0x20ff) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    (code >= 0xfe20 && code <= 0xfe2f);
  return over ? 0 : 1;
}

// a look that most lines fail, before the one that decides
const MAYBE = /rror|xception|Traceback|Interrupt|terminate called|Segmentation fault|Bus error|core dumped/;
const TRACEBACK = /Traceback \(most recent call last\)/;
// "ValueError: …", "torch.cuda.OutOfMemoryError: …", also behind torchrun's "[rank1]: "; a bare number behind
// the name is a metric ("MeanError: 0.2"), and the name of a metric is no class ("val_error: 0.2")
const EXCEPTION =
  /^(?:\[rank\d+\]:\s*)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:$|:$|:\s+(?!-?\d*\.\d+(?:[eE][-+]?\d+)?\s*(?:$|[,|]|\s\w+[:=])))/;
const NATIVE =
  /Fatal Python error|terminate called|Segmentation fault|Bus error|\(core dumped\)|\b(?:CUDA|NCCL|CUBLAS|cuBLAS|CUDNN|cuDNN)(?: runtime| driver)? error\b(?! rate)|\bnccl\w+Error\b/;

type ErrorMark = 'none' | 'traceback' | 'exception' | 'native';

/** Return the kind of error that plain `line` begins, if any. */
export function errorMark(line: string): ErrorMark {
  if (!MAYBE.test(line)) {
    return 'none';
  }
  if (TRACEBACK.test(line)) {
    return 'traceback';
  }
  if (EXCEPTION.test(line)) {
    return 'exception';
  }
  return NATIVE.test(line) ? 'native' : 'none';
}

export interface Span {
  readonly text: string;
  /** classes, apart by spaces; empty for none */
  readonly classes: string;
  /** a CSS colour; empty for none */
  readonly colour: string;
  readonly background: string;
}

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const CUBE = [0, 95, 135, 175, 215, 255];

/** Return `line` in spans; their texts together are the line's plain text. */
export function spansOf(line: string): Span[] {
  const text = plain(line);
  if (line.includes('\x1b')) {
    const spans = Anser.ansiToJson(onlyColours(line), { json: true, use_classes: true })
      .filter(entry => entry.content)
      .map(spanOf);
    // matches and links are found in the plain text: their positions must hold in the spans
    if (spans.map(span => span.text).join('') === text) {
      return spans;
    }
  }
  return [{ text, classes: '', colour: '', background: '' }];
}

function spanOf(entry: AnserJsonEntry): Span {
  const classes = entry.decorations
    .filter(name => name !== 'blink' && name !== 'hidden')
    .map(name => `nbdist-ansi-${name}`);
  // anser fills in black on white where an inverted text has no colours
  const inverted = (entry as AnserJsonEntry & { isInverted?: boolean }).isInverted === true;
  if (inverted && entry.fg === 'ansi-black' && entry.bg === 'ansi-white') {
    classes.push('nbdist-ansi-inverse');
    return { text: entry.content, classes: classes.join(' '), colour: '', background: '' };
  }
  const front = colourOf(entry.fg, entry.fg_truecolor);
  const back = colourOf(entry.bg, entry.bg_truecolor);
  if (back.number >= 0) {
    // the 16 colours are chosen to be read on the page's background, so that is what is read on them
    classes.push(`nbdist-ansi-on-${back.number}`);
  } else if (front.number >= 0) {
    classes.push(`nbdist-ansi-${front.number}`);
  }
  return {
    text: entry.content,
    classes: classes.join(' '),
    colour: back.number >= 0 ? '' : front.css,
    background: back.css,
  };
}

/** Return one of the 16 colours by its number, or any other as CSS. */
function colourOf(name: string | null, truecolour: string | null): { number: number; css: string } {
  if (!name) {
    return { number: -1, css: '' };
  }
  if (name === 'ansi-truecolor') {
    return { number: -1, css: `rgb(${truecolour ?? ''})` };
  }
  if (name.startsWith('ansi-palette-')) {
    return { number: -1, css: palette(Number(name.slice('ansi-palette-'.length))) };
  }
  const bright = name.startsWith('ansi-bright-');
  return { number: NAMES.indexOf(name.slice(name.lastIndexOf('-') + 1)) + (bright ? 8 : 0), css: '' };
}

/** Return a colour, 16 to 255, of the palette: a cube of six levels, then greys. */
function palette(number: number): string {
  if (number >= 232) {
    const level = 8 + (number - 232) * 10;
    return `rgb(${level}, ${level}, ${level})`;
  }
  const at = number - 16;
  return `rgb(${CUBE[Math.floor(at / 36)]!}, ${CUBE[Math.floor(at / 6) % 6]!}, ${CUBE[at % 6]!})`;
}
