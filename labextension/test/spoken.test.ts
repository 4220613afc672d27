import { readFileSync } from 'node:fs';

import { exitInChinese } from '../src/spoken';

interface Said {
  en: string;
  zh: string;
}

// from labextension/, where the tests are run; pytest reads them too
const EXITS = JSON.parse(readFileSync('../tests/fixtures/exits.json', 'utf8')) as Said[];

test.each(EXITS)('$en', ({ en, zh }) => {
  expect(exitInChinese(en)).toBe(zh);
});

test('what is not known stays as it is', () => {
  expect(['', 'gone fishing', 'SIGUSR1 (why not)'].map(exitInChinese)).toEqual([
    '',
    'gone fishing',
    'SIGUSR1 (why not)',
  ]);
});
