import { overlay } from '../src/model/charts';
import { runRow } from '../src/lab/services/client';
import { age, leftRuns, listing, standing } from '../src/lab/services/listing';
import type { Chart } from '../src/protocol/charts';
import { row, running } from './lab_fakes';

const NOW = new Date(2026, 10, 20, 12).getTime();

const itemsOf = (groups: ReturnType<typeof listing>) =>
  groups.flatMap(({ title, entries }) => [{ kind: 'heading' as const, title }, ...entries]);

function made(label: string, daysAgo: number, given: object = {}) {
  return runRow(row(label, { created: NOW / 1000 - daysAgo * 86_400, ...given }));
}

test('runs stand under the day that they began on, those that go on under their own heading', () => {
  const rows = [made('a-1', 3, running), made('b-2', 0), made('c-3', 1), made('d-4', 2), made('e-5', 400)];

  const groups = listing(rows, NOW);

  expect(groups.map(({ title }) => title)).toEqual([
    'Active',
    'Today',
    'Yesterday',
    'Wednesday, November 18',
    'October 16, 2025',
  ]);
  expect(groups.map(({ entries }) => entries.length)).toEqual([1, 1, 1, 1, 1]);
});

test('a cell that shows a run is taken over for its last run alone, in its notebook, and not from a sweep', () => {
  const sweep = { sweep_id: 's', label: 's', number: 0, points: 2, values: '', higher: null };
  const known = [
    made('a-1', 2, { cell_id: 'one' }),
    made('b-2', 1, { cell_id: 'one' }),
    made('c-3', 1, { cell_id: 'two', notebook: '/home/ada/other.ipynb' }),
    made('d-4', 1, { cell_id: 'three', sweep }),
    made('e-5', 1, { cell_id: '' }),
  ];

  expect(leftRuns(known, known, 'ada/lenet.ipynb').map(({ label }) => label)).toEqual(['b-2']);
});

test.each([
  [20, 'now'],
  [300, '5 min'],
  [7300, '2 h'],
  [200_000, '2 d'],
])('%d seconds ago is %j', (seconds, text) => {
  expect(age(seconds)).toBe(text);
});

test('curves of runs lie over each other by step, with a gap where a run has no value', () => {
  const chart = (steps: number[], values: number[]): Chart => ({
    tag: 'loss',
    kind: 'band',
    group: 'metric',
    unit: '',
    ranks: [0, 1],
    last: [values.at(-1)!, 0, 1],
    highest: null,
    columns: [steps, steps, values, values, values].map(each => Float32Array.from(each)),
  });
  const lossOnly = new Map([['metric/loss', chart([0, 2], [1, 0.5])]]);
  const other = new Map([['metric/loss', chart([0, 1], [3, 2])]]);

  const both = overlay([lossOnly, new Map(), other]).get('metric/loss')!;

  expect(both.ranks).toEqual([0, 2]);
  expect(both.last).toEqual([0.5, 2]);
  expect([...both.columns[0]!]).toEqual([0, 1, 2]);
  expect([...both.columns[2]!]).toEqual([1, NaN, 0.5]);
  expect([...both.columns[3]!]).toEqual([3, 2, NaN]);
});

test('pinned runs come first under their own heading, and a sweep comes as a whole', () => {
  const sweep = { sweep_id: 's', label: 'lr-k3f9', number: 0, points: 2, values: '', higher: null };
  const rows = [
    made('lr-1', 5, { sweep, pinned: true }),
    made('a-1', 0, running),
    made('lr-2', 5, { sweep: { ...sweep, number: 1 } }),
  ];

  const items = itemsOf(listing(rows, NOW, new Set()));

  expect(items.map(item => (item.kind === 'heading' ? item.title : item.kind))).toEqual([
    ...['Pinned', 'sweep', 'Active', 'run'],
  ]);
});

test('a sweep is one entry, with its points below it where it is open', () => {
  const point = (number: number, given: object, loss?: number) =>
    made(`lenet-${number + 1}-aaaa`, 0, {
      ...given,
      spark: loss === undefined ? null : { tag: 'loss', values: [9, loss] },
      sweep: {
        sweep_id: 's',
        label: 'lenet-k3f9',
        number,
        points: 5,
        values: `lr=${number}`,
        higher: false,
      },
    });
  const rows = [point(3, running, 0.1), made('bert-bbbb', 0), point(2, { state: 'failed' }, 0.01)];
  rows.push(point(1, {}, 0.5), point(0, {}, 0.25));

  const closed = itemsOf(listing(rows, NOW, new Set()));
  const open = itemsOf(listing(rows, NOW, new Set(['s'])));
  const sweep = closed.find(item => item.kind === 'sweep')!;

  expect(closed.map(({ kind }) => kind)).toEqual(['heading', 'sweep', 'heading', 'run']);
  expect(open.flatMap(item => (item.kind === 'run' ? [item.row.sweep?.number] : []))).toEqual([
    0,
    1,
    2,
    3,
    undefined,
  ]);
  expect(standing(sweep.sweep)).toMatchObject({ points: 5, ended: 3, failed: 1, state: 'running' });
  expect(standing(sweep.sweep).best?.sweep?.number).toBe(3);
});

test('of what was looked for the points stand below their sweep, whose state they do not tell', () => {
  const sweep = (number: number) => ({
    sweep_id: 's',
    label: 'lr-k3f9',
    number,
    points: 6,
    values: '',
    higher: false,
  });
  const rows = [made('lr-2', 0, { sweep: sweep(1) }), made('bert', 0), made('lr-1', 0, { sweep: sweep(0) })];

  const items = itemsOf(listing(rows, NOW, null));

  expect(items.flatMap(item => (item.kind === 'run' ? [item.row.label] : [item.kind]))).toEqual([
    ...['heading', 'sweep', 'lr-1', 'lr-2', 'bert'],
  ]);
  const shown = items.find(item => item.kind === 'sweep')!;
  expect(standing(shown.sweep)).toMatchObject({ points: 6, ended: 2, state: 'finished' });
});

test('a run that diverged is not the best of its sweep', () => {
  const point = (number: number, values: number[], diverged: boolean) =>
    made(`lr-${number}`, 0, {
      spark: { tag: 'loss', values, diverged },
      sweep: { sweep_id: 's', label: 'lr-k3f9', number, points: 2, values: '', higher: false },
    });
  const rows = [point(0, [2, 0.1], true), point(1, [2, 0.5], false)];

  const items = itemsOf(listing(rows, NOW, new Set(['s'])));

  expect(items.flatMap(item => (item.kind === 'run' && item.best ? [item.row.label] : []))).toEqual(['lr-1']);
});
