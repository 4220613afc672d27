import { readdirSync, readFileSync } from 'node:fs';

const NAMES = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter(name => /\.tsx?$/.test(name));

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
  expect(IMPORTED.get('panel.tsx')).toContain('views/Panel.tsx');
  expect(NAMES.map(name => circle(name)).filter(Boolean)).toEqual([]);
});

test('the panel and its views know nothing of JupyterLab', () => {
  const upwards = NAMES.filter(name => !name.startsWith('lab/')).filter(name =>
    IMPORTED.get(name)!.some(other => other.startsWith('lab/')),
  );

  expect(upwards).toEqual([]);
});
