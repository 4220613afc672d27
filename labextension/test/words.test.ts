import { languageOf, WORDS } from '../src/words';

test('both languages say the same things', () => {
  const shape = (words: object): string[] =>
    Object.entries(words).flatMap(([name, said]) =>
      typeof said === 'object'
        ? shape(said as object).map(inner => `${name}.${inner}`)
        : [`${name}:${typeof said}`],
    );

  expect(shape(WORDS.zh)).toEqual(shape(WORDS.en));
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
  ['the page says nothing, the browser is German', '', 'de', 'en'],
])('%s', (_what, lang, browser, language) => {
  document.documentElement.lang = lang;

  expect(languageOf(document, browser)).toBe(language);
});
