import { LAB_WORDS } from '../src/words/lab';
import { languageOf } from '../src/words/languages';
import { LOG_WORDS } from '../src/words/log';
import { WORDS } from '../src/words/panel';

test('both languages leave the same open, and fill it in by its place', () => {
  const shape = (words: object): string[] =>
    Object.entries(words).flatMap(([name, word]) =>
      typeof word === 'object'
        ? shape(word as object).map(inner => `${name}.${inner}`)
        : [`${name}:${typeof word}`],
    );

  for (const table of [WORDS, LOG_WORDS, LAB_WORDS]) {
    expect(shape(table.zh)).toEqual(shape(table.en));
  }
  expect(WORDS.en.sweepPoints(3, 12)).toBe('3 of 12 points');
  expect(WORDS.zh.sweepPoints(3, 12)).toBe('3/12 个点');
  expect(WORDS.en.nodes(2, '{0}')).toBe('2 nodes, {0} ranks');
});

test('one of something has no plural', () => {
  expect([WORDS.en.ranks(1), WORDS.en.ranks(2), WORDS.en.errors(1)]).toEqual([
    '1 rank',
    '2 ranks',
    '1 error line',
  ]);
});

test.each([
  ['the page is Chinese', 'zh-CN', 'en-US', 'zh'],
  ['the page is English', 'en', 'zh-CN', 'en'],
  ['the page says nothing, the browser is Chinese', '', 'zh', 'zh'],
  ['the page is Chinese of Taiwan', 'zh-TW', 'zh-CN', 'en'],
  ['the browser is Traditional Chinese', '', 'zh-Hant', 'en'],
  ['the browser is Simplified Chinese of Hong Kong', '', 'zh-Hans-HK', 'zh'],
  ['the page says nothing, the browser is German', '', 'de', 'en'],
])('%s', (_what, lang, browser, language) => {
  document.documentElement.lang = lang;

  expect(languageOf(document, browser)).toBe(language);
});

test('punctuation beside Chinese is full-width', () => {
  const fill = (word: unknown): unknown => (typeof word === 'function' ? word('中', '中', '中') : word);
  const texts = (words: object): string[] =>
    Object.values(words).flatMap(word => (typeof word === 'object' ? texts(word) : String(fill(word))));

  const chinese = [WORDS, LOG_WORDS, LAB_WORDS].flatMap(({ zh }) => texts(zh));

  expect(chinese.length).toBeGreaterThan(250);
  expect(chinese.filter(text => /[\u4e00-\u9fff] ?[,:;()?!]|[,:;()?!] ?[\u4e00-\u9fff]/.test(text))).toEqual(
    [],
  );
});
