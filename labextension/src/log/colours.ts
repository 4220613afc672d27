/** A line with colour sequences as spans of text. */
import Anser, { type AnserJsonEntry } from 'anser';

import { onlyColours, plain } from './line_text';

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

/** `line` in spans; their texts together are the line's plain text. */
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

/** One of the 16 colours by its number, or any other as CSS. */
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

/** Colours 16 to 255 of the palette: a cube of six levels, then greys. */
function palette(number: number): string {
  if (number >= 232) {
    const level = 8 + (number - 232) * 10;
    return `rgb(${level}, ${level}, ${level})`;
  }
  const at = number - 16;
  return `rgb(${CUBE[Math.floor(at / 36)]!}, ${CUBE[Math.floor(at / 6) % 6]!}, ${CUBE[at % 6]!})`;
}
