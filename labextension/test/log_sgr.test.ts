import { expect, test } from '@jest/globals';

import { plain } from '../src/log/ansi';
import { spansOf } from '../src/log/sgr';

test('colours become variables for the 16, values for the others', () => {
  const spans = spansOf(
    '\x1b[32mok\x1b[0m \x1b[1;91mbad\x1b[0m \x1b[38;5;208mp\x1b[0m \x1b[38;2;1;2;3mt\x1b[0m',
  );

  expect(spans.map(({ text, classes, colour }) => [text, classes, colour])).toEqual([
    ['ok', '', 'var(--nb-ansi-2)'],
    [' ', '', ''],
    ['bad', 'nbdist-ansi-bold', 'var(--nb-ansi-9)'],
    [' ', '', ''],
    ['p', '', 'rgb(255, 135, 0)'],
    [' ', '', ''],
    ['t', '', 'rgb(1, 2, 3)'],
  ]);
});

test.each([
  ['bold and italic', '\x1b[1;3mx', 'nbdist-ansi-bold nbdist-ansi-italic'],
  ['dim', '\x1b[2mx', 'nbdist-ansi-dim'],
  ['underline', '\x1b[4mx', 'nbdist-ansi-underline'],
  ['blinking', '\x1b[5mx', ''],
  ['all styles, and their ends', '\x1b[1;2;3;4m\x1b[22;23;24mx', ''],
  ['what follows a colour of the palette', '\x1b[38;5;208;1mx', 'nbdist-ansi-bold'],
  ['a sequence that only looks alike', '\x1b[?31m\x1b[>4;2mx', ''],
])('%s', (_, line, classes) => {
  expect(spansOf(line)).toMatchObject([{ text: 'x', classes }]);
});

const PAGE = 'var(--nb-bg)';

test.each([
  ['a background', '37;41', PAGE, 'var(--nb-ansi-1)'],
  ['bright on bright', '97;104', PAGE, 'var(--nb-ansi-12)'],
  ['one of the 16 by the palette', '38;5;9', 'var(--nb-ansi-9)', ''],
  ['both, and the defaults', '31;42;39;49', '', ''],
  ['both, and no parameter at all', '1;31;42m\x1b[', '', ''],
  ['an empty parameter, which is a reset', '31;', '', ''],
  ['the cube', '38;5;16', 'rgb(0, 0, 0)', ''],
  ['the last of the cube', '38;5;231', 'rgb(255, 255, 255)', ''],
  ['a grey', '48;5;232', '', 'rgb(8, 8, 8)'],
  ['both', '38;2;1;2;3;48;2;4;5;6', 'rgb(1, 2, 3)', 'rgb(4, 5, 6)'],
])('colours: %s', (_, parameters, colour, background) => {
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
