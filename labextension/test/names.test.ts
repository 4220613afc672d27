import { readdirSync, readFileSync } from 'node:fs';

const SOURCES = ['src', 'test'].flatMap(folder =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => /\.tsx?$/.test(name))
    .map(name => ({ name: `${folder}/${name}`, text: readFileSync(`${folder}/${name}`, 'utf8') })),
);

/** The matches of a pattern in all files, each with its file and line. */
function places(pattern: RegExp): string[] {
  return SOURCES.flatMap(({ name, text }) =>
    [...text.matchAll(pattern)].map(
      match => `${name}:${text.slice(0, match.index).split('\n').length} ${match[0]}`,
    ),
  );
}

const FIRST_WORDS = 'what|whether|of|where|how|why|which|who|that|with|when';

test('a comment begins with a verb or a noun', () => {
  expect(places(new RegExp(`/\\*\\*\\s*(?:\\*\\s*)?(?:${FIRST_WORDS})\\b`, 'gi'))).toEqual([]);
});

const VAGUE = 'one|found|said|told|say|asked|there|look|heard|deafen|homeless|settle|linesOf|few';

test('a name says what it holds', () => {
  const declared = new RegExp(`\\b(?:const|let|function|class|interface|type) (?:${VAGUE})\\b`, 'g');
  const parameter = new RegExp(`[({,] ?(?:${VAGUE})\\??(?:: [\\w<]+)?(?:[,)]| =>| })(?=[^'\`]*$)`, 'gm');
  const arrow = new RegExp(`(?<![\\w.'])(?:${VAGUE}) =>`, 'g');

  expect([declared, parameter, arrow].flatMap(places)).toEqual([]);
});

test('a constant has its unit, not the name of five others', () => {
  expect(places(/\bconst (?:PERIOD|HEIGHT|QUIET|ROW)\b/g)).toEqual([]);
});
