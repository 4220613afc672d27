import { readdirSync, readFileSync } from 'node:fs';

const NAMES = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(name => /\.tsx?$/.test(name));

/** The rooms, from the lowest to the highest: each imports from those below it, and nothing from `panel`. */
const ROOMS = ['protocol', 'log', 'words', 'model', 'page', 'log_view', 'views', 'panel', 'lab'];

const roomOf = (name: string): string => name.split('/')[0]!;

const isBelow = (lower: string, room: string): boolean =>
  ROOMS.includes(lower) && ROOMS.indexOf(lower) < ROOMS.indexOf(room) && lower !== 'panel';

/** The files of ours that each file imports, types included. */
const IMPORTED = new Map(
  NAMES.map(name => {
    const source = readFileSync(`src/${name}`, 'utf8');
    const paths = [...source.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)].map(([, path]) =>
      new URL(path!, `file:///${name}`).pathname.slice(1),
    );
    return [name, NAMES.filter(other => paths.includes(other.replace(/\.tsx?$/, '')))] as const;
  }),
);

/** The way back to where it began, if a way from `name` leads there. */
function circle(name: string, way: readonly string[] = []): readonly string[] | undefined {
  if (way.includes(name)) {
    return [...way.slice(way.indexOf(name)), name];
  }
  return IMPORTED.get(name)!
    .map(next => circle(next, [...way, name]))
    .find(Boolean);
}

test('no file imports itself by way of others', () => {
  expect(IMPORTED.get('panel/widget.tsx')).toContain('views/Panel.tsx');
  expect(NAMES.map(name => circle(name)).filter(Boolean)).toEqual([]);
});

test('rooms import from rooms below alone', () => {
  const upwards = NAMES.flatMap(name =>
    IMPORTED.get(name)!
      .filter(other => roomOf(other) !== roomOf(name) && !isBelow(roomOf(other), roomOf(name)))
      .map(other => `${name} -> ${other}`),
  );

  expect(upwards).toEqual([]);
});

test('messages, models and logs know no page', () => {
  const dom = /\b(?:document|window|HTMLElement|MutationObserver)\b/;
  const rooms = ['protocol', 'model', 'log'];
  const inPage = NAMES.filter(name => rooms.includes(roomOf(name))).filter(name =>
    dom.test(readFileSync(`src/${name}`, 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '')),
  );

  expect(inPage).toEqual([]);
});
