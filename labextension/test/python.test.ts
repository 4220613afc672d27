import { tokenLines } from '../src/views/Code';

const kinds = (source: string): string[][] =>
  tokenLines(source).map(line => line.filter(({ kind }) => kind).map(({ kind, text }) => `${kind} ${text}`));

test('keywords, texts, numbers and comments are told apart', () => {
  expect(kinds("for x in range(10):  # 'all'\n    print('if', fortune)")).toEqual([
    ['keyword for', 'keyword in', 'number 10', "comment # 'all'"],
    ["string 'if'"],
  ]);
});

test('a text over several lines colours each of them', () => {
  expect(kinds('"""one\nfor two"""\nreturn')).toEqual([
    ['string """one'],
    ['string for two"""'],
    ['keyword return'],
  ]);
});

test('nothing of the program is lost', () => {
  const source = 'def f(x):\n\treturn f"{x!r}" \'open\n\n# end\n';

  expect(
    tokenLines(source)
      .map(line => line.map(({ text }) => text).join(''))
      .join('\n'),
  ).toBe(source);
});
