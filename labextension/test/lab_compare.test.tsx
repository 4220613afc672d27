/** @jest-environment jsdom */
import './page';
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/preact';
import { createElement } from 'react';

import { axisOf, plotColumns, overlay } from '../src/model/charts';
import {
  valueText,
  chartsOf,
  columnKey,
  comparisonColumns,
  compared,
  firstColumns,
  sorted,
} from '../src/model/comparison';
import { Runs } from '../src/lab/services/runs';
import { Comparison } from '../src/lab/views/Comparison';
import { fakeService, settled } from './lab_fakes';

function row(group: string, name: string, ...values: unknown[]): object {
  return { group, name, values, differs: values.some(value => value !== values[0]) };
}

const RUN = (letter: string): object => ({
  run_id: `20261120-141503-lenet-aaa${letter.toLowerCase()}`,
  name: 'lenet',
  label: `lenet-aaa${letter.toLowerCase()}`,
  letter,
  state: letter === 'B' ? 'failed' : 'finished',
  live: false,
});

const curve = (tag: string, steps: number[], values: (number | null)[], start = 0): object => ({
  tag,
  steps,
  times: steps.map(step => start + step / 10),
  values,
});

const ANSWER = {
  version: 1,
  runs: ['A', 'B', 'C'].map(RUN),
  step: 2,
  changed: [
    {
      run_id: '20261120-141503-lenet-aaab',
      against: '20261120-141503-lenet-aaaa',
      changes: [
        { code: 'lr-kept', text: 'The rate stays.', text_zh: '不变。', fixes: ['lr=0.2', 'batch_size=16'] },
      ],
    },
  ],
  rows: [
    row('run', 'state', 'finished', 'failed', 'finished'),
    row('run', 'duration', 61, 7205, 3),
    row('last', 'loss', 0.25, 'nan', 0.125),
    { ...row('best', 'loss', 0.25, 2, 0.125), steps: [4, 0, 4] },
    row('at', 'loss', 0.5, 2, 0.5),
    row('argument', '--lr', '0.1', '0.02', null),
    row('option', '--retries', 0, 0, 0),
    row('code', 'clean', true, false, true),
  ],
  untrusted: { rows: [row('hparam', 'width', 64, 128, 64)] },
  curves: [
    [curve('loss', [0, 2, 4], [1, 0.5, 0.25])],
    [curve('loss', [0, 1], [2, null]), curve('acc', [0], [0.5])],
    [curve('loss', [0, 2, 4], [1, 0.5, 0.25], 7)],
  ],
};

const FOUND = compared(ANSWER);
const COLUMNS = comparisonColumns(FOUND);

afterEach(() => {
  cleanup();
  document.body.innerHTML = '';
});

test('the columns are those in which the runs differ, the outcome before what led to it', () => {
  expect(firstColumns(COLUMNS).map(columnKey)).toEqual([
    'run/state',
    'run/duration',
    'last/loss',
    'best/loss',
    'at/loss',
    'hparam/width',
    'argument/--lr',
    'code/clean',
  ]);
});

test('of many metrics a few are shown, so that there is room for what led to them', () => {
  const metrics = Array.from({ length: 9 }, (_, at) => row('last', `metric${at}`, 1, 2, 3));
  const many = comparisonColumns(compared({ ...ANSWER, rows: [...metrics, ...ANSWER.rows] }));

  expect(
    firstColumns(many)
      .map(columnKey)
      .filter(key => key.startsWith('last/')),
  ).toHaveLength(4);
  expect(firstColumns(many).map(columnKey)).toContain('argument/--lr');
});

test.each([
  ['run/state', 1, 'Failed'],
  ['run/duration', 1, '2:00:05'],
  ['last/loss', 1, 'nan'],
  ['last/loss', 0, '0.25'],
  ['argument/--lr', 2, '–'],
  ['code/clean', 1, 'no'],
])('%s of run %d is read as %j', (key, run, text) => {
  expect(
    valueText(
      COLUMNS.find(column => columnKey(column) === key)!,
      run,
    ),
  ).toBe(text);
});

test.each([
  ['last/loss', false, [2, 0, 1]],
  ['last/loss', true, [0, 2, 1]],
  ['argument/--lr', false, [1, 0, 2]],
  ['run/state', false, [1, 0, 2]],
  ['', true, [0, 1, 2]],
])('runs are sorted by %j, descending: %p; those without a value are last', (key, descending, order) => {
  const column = COLUMNS.find(each => columnKey(each) === key);

  expect(sorted(column, 3, descending)).toEqual(order);
});

test('curves lie over each other by step, and by time where they have none, where a run has points', () => {
  const loss = overlay(chartsOf(FOUND, new Set([0, 1, 2]))).get('metric/loss')!;
  const some = overlay(chartsOf(FOUND, new Set([1])));

  expect(plotColumns(loss, 'step')).toEqual([
    [0, 1, 2, 4],
    [1, null, 0.5, 0.25],
    [2, null, null, null],
    [1, null, 0.5, 0.25],
  ]);
  const [steps, times, values] = [
    [NaN, NaN],
    [0.5, 7],
    [2, 1],
  ].map(each => Float32Array.from(each));
  const stepless = overlay([new Map([['metric/loss', { ...loss, columns: [steps!, times!, values!] }]])]);
  expect(axisOf(stepless.get('metric/loss')!)).toBe('time');
  expect(plotColumns(stepless.get('metric/loss')!, 'time')).toEqual([
    [0.5, 7],
    [2, 1],
  ]);
  expect([...some.keys()]).toEqual(['metric/loss', 'metric/acc']);
  expect(some.get('metric/loss')!.ranks).toEqual([1]);
});

/** jsdom draws no curves, and says so for each. */
async function page(curves: readonly object[][] = [[], [], []]): Promise<ReturnType<typeof fakeService>> {
  const parts = fakeService();
  parts.server.answers['POST nbdist/api/compare'] = { body: { ...ANSWER, curves } };
  const service = { ...parts, runs: new Runs(parts.client, parts.stream, parts.clock) };
  render(
    createElement(Comparison, {
      runIds: FOUND.runs.map(({ runId }) => runId),
      service,
      execute: () => undefined,
    }),
  );
  await act(settled);
  return parts;
}

const names = (): string[] =>
  screen
    .getAllByRole('row')
    .slice(1)
    .map(each => within(each).getAllByRole('button')[0]!.textContent);

test('the table is sorted by a click on a column, the other way by another, and as before by a third', async () => {
  await page();
  const by = screen.getByRole('button', { name: /^duration/ });

  expect(names()).toEqual(['lenet-aaaa', 'lenet-aaab', 'lenet-aaac']);
  fireEvent.click(by);
  expect(names()).toEqual(['lenet-aaac', 'lenet-aaaa', 'lenet-aaab']);
  fireEvent.click(by);
  expect(names()).toEqual(['lenet-aaab', 'lenet-aaaa', 'lenet-aaac']);
  expect(screen.getByRole('columnheader', { name: /^duration/ }).getAttribute('aria-sort')).toBe(
    'descending',
  );
  fireEvent.click(by);
  expect(names()).toEqual(['lenet-aaaa', 'lenet-aaab', 'lenet-aaac']);
});

test('curves come and go at once as runs are ticked', async () => {
  await page(ANSWER.curves);
  const curves = (): number => document.querySelectorAll('.nbdist-plot').length;
  const every = document.querySelector<HTMLInputElement>('thead input')!;

  expect(curves()).toBe(2);
  fireEvent.click(every);
  expect(curves()).toBe(0);
  fireEvent.click(every);
  expect(curves()).toBe(2);
});

test('the programs of any two runs are compared', async () => {
  const { server } = await page();
  const lines = ['@@ -1 +1 @@', '-lr = 0.1', '+lr = 0.3'];
  server.answers['POST nbdist/api/compare'] = {
    body: { ...ANSWER, curves: [], diffs: [{ run_id: 'C', lines }] },
  };

  const after = screen.getByLabelText<HTMLSelectElement>('After');
  after.value = '2';
  // the library makes another event of a change
  act(() => void after.dispatchEvent(new Event('change', { bubbles: true })));
  await act(settled);

  expect(server.bodies.at(-1)).toEqual({
    run_ids: [FOUND.runs[0]!.runId, FOUND.runs[2]!.runId],
    curves: false,
  });
  expect([...document.querySelectorAll('.nbdist-diff > div')].map(each => each.textContent)).toEqual(lines);
});

test('what more ranks change in a training stands above the table, with the lines that undo it', async () => {
  await page();

  const note = screen.getByText(/The training of B differs from that of A/);
  expect(note.textContent).toContain('1. The rate stays.lr=0.2batch_size=16');
  expect(note.querySelectorAll('code')).toHaveLength(2);
});
