import { expect, test } from '@jest/globals';

import { plain } from '../src/log/ansi';
import { spansOf } from '../src/log/sgr';

test('colours become classes for the 16, styles for the others', () => {
  const spans = spansOf(
    '\x1b[32mok\x1b[0m \x1b[1;91mbad\x1b[0m \x1b[38;5;208mp\x1b[0m \x1b[38;2;1;2;3mt\x1b[0m',
  );

  expect(spans.map(({ text, classes, colour }) => [text, classes, colour])).toEqual([
    ['ok', 'nbdist-ansi-2', ''],
    [' ', '', ''],
    ['bad', 'nbdist-ansi-bold nbdist-ansi-9', ''],
    [' ', '', ''],
    ['p', '', 'rgb(255, 135, 0)'],
    [' ', '', ''],
    ['t', '', 'rgb(1, 2, 3)'],
  ]);
});

test.each([
  ['a background', '\x1b[37;41mx', 'nbdist-ansi-on-1'],
  ['inverse', '\x1b[7mx', 'nbdist-ansi-inverse'],
  ['inverse red', '\x1b[31;7mx', 'nbdist-ansi-on-1'],
  ['inverse, with a background', '\x1b[31;43;7mx', 'nbdist-ansi-on-1'],
  ['bright on bright', '\x1b[97;104mx', 'nbdist-ansi-on-12'],
  ['bold and italic', '\x1b[1;3mx', 'nbdist-ansi-bold nbdist-ansi-italic'],
  ['dim', '\x1b[2mx', 'nbdist-ansi-dim'],
  ['underline', '\x1b[4mx', 'nbdist-ansi-underline'],
  ['a curly underline', '\x1b[4:3mx', 'nbdist-ansi-underline'],
  ['strikethrough', '\x1b[9mx', 'nbdist-ansi-strikethrough'],
  ['blinking', '\x1b[5mx', ''],
  ['all styles, and their ends', '\x1b[1;2;3;4;7;9m\x1b[22;23;24;27;29mx', ''],
  ['an underline that ends by its part', '\x1b[4m\x1b[4:0mx', ''],
  ['colours, and the defaults', '\x1b[31;42m\x1b[39;49mx', ''],
  ['colours, and no parameter at all', '\x1b[1;31;42m\x1b[mx', ''],
  ['an empty parameter, which is a reset', '\x1b[31;mx', ''],
  ['one of the 16 by the palette', '\x1b[38;5;9mx', 'nbdist-ansi-9'],
  ['what follows a colour of the palette', '\x1b[38;5;208;1mx', 'nbdist-ansi-bold'],
  ["the colour of an underline, which is not the text's", '\x1b[58;5;1;3mx', 'nbdist-ansi-italic'],
  ['a colour that is none', '\x1b[31m\x1b[38;5;256mx', 'nbdist-ansi-1'],
  ['a sequence that only looks alike', '\x1b[?31m\x1b[>4;2mx', ''],
])('%s', (_, line, classes) => {
  expect(spansOf(line)).toMatchObject([{ text: 'x', classes }]);
});

test.each([
  ['the cube', '38;5;16', 'rgb(0, 0, 0)', ''],
  ['the last of the cube', '38;5;231', 'rgb(255, 255, 255)', ''],
  ['a grey', '48;5;232', '', 'rgb(8, 8, 8)'],
  ['parts', '38:5:208', 'rgb(255, 135, 0)', ''],
  ['parts with a colour space', '48:2::1:2:3', '', 'rgb(1, 2, 3)'],
  ['parts without one', '48:2:1:2:3', '', 'rgb(1, 2, 3)'],
  ['both', '38;2;1;2;3;48;2;4;5;6', 'rgb(1, 2, 3)', 'rgb(4, 5, 6)'],
  ['inverse', '7;38;2;1;2;3', 'var(--nb-bg)', 'rgb(1, 2, 3)'],
  ['too few values', '38;2;1', '', ''],
])('colours beyond the 16: %s', (_, parameters, colour, background) => {
  expect(spansOf(`\x1b[${parameters}mx`)).toMatchObject([{ text: 'x', classes: '', colour, background }]);
});

test('whatever the sequences, the spans are the plain text', () => {
  for (const line of [
    '\x1b[31;1mA\x1b[38:2::1:2:3mB\x1b[?25lC\x1b',
    '\x1b[[31mx',
    'a\x1b]8;;u\x07b\x1b[mc',
    '\x1b[12',
  ]) {
    expect(
      spansOf(line)
        .map(({ text }) => text)
        .join(''),
    ).toBe(plain(line));
  }
});
