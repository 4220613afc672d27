import { expect, test } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';

/** The files below src whose names end so, as one text. */
function sources(ending: RegExp): string {
  return readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter(name => ending.test(name))
    .map(name => readFileSync(`src/${name}`, 'utf8'))
    .join('');
}

const [css, code] = [sources(/\.css$/), sources(/\.tsx?$/)];

test('a class of the style sheets is used', () => {
  const classes = new Set(css.match(/(?<=\.)nbdist-(?!ansi-)[\w-]+/g));

  expect([...classes].filter(name => !new RegExp(`['" .]${name}(?![\\w-])`).test(code))).toEqual([]);
});

test.each([
  ['the style sheets', css, 2200],
  ['the code', code, 13_851],
])('%s keep to their budget of lines', (_, text, most) => {
  expect(text.split('\n').length - 1).toBeLessThanOrEqual(most);
});
