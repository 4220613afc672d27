import { axisOf, canBeLog, latest, plotColumns, logByDefault, positive, rowAt } from '../src/model/charts';
import { decode, type Update } from '../src/protocol/run';
import { type Chart } from '../src/protocol/charts';
import { sample } from './samples';

function chart(name: string): Chart {
  const { content, buffers } = sample(name);
  return (decode(content, buffers) as Update).charts[0]!;
}

function ranks(steps: number[], ...values: number[][]): Chart {
  const columns = [steps, steps, ...values].map(column => Float32Array.from(column));
  return {
    tag: 'loss',
    kind: 'ranks',
    group: 'metric',
    unit: '',
    ranks: values.map((_, rank) => rank),
    columns,
    last: values.map(each => each.at(-1) ?? NaN),
    highest: null,
  };
}

test('a metric is drawn over steps, what the machine measured over time alone', () => {
  expect(axisOf(chart('band_chart'))).toBe('step');
  expect(axisOf(chart('ranks_chart'))).toBe('time');
});

test('where a rank has no value there is a gap', () => {
  expect(plotColumns(chart('ranks_chart'), 'time')).toEqual([
    [2, 4],
    [11.25, 11.5],
    [null, 10.5],
  ]);
});

test('points that came in another order are drawn in theirs', () => {
  expect(plotColumns(ranks([3, 1, 2], [30, 10, 20]), 'step')).toEqual([
    [1, 2, 3],
    [10, 20, 30],
  ]);
});

test.each([
  ['over two decades', [2.3, 0.5, 0.02], true],
  ['within one decade', [2.3, 0.5], false],
  ['down to zero', [2.3, 0], false],
])('a curve %s has a logarithmic scale by itself: %p', (_what, values, log) => {
  expect(
    logByDefault(
      plotColumns(
        ranks(
          values.map((_, step) => step),
          values,
        ),
        'step',
      ),
    ),
  ).toBe(log);
});

test('a logarithm shows what is above zero, if anything is', () => {
  const lines = plotColumns(ranks([0, 1], [-1, 2]), 'step');

  expect(positive(lines)).toEqual([
    [0, 1],
    [null, 2],
  ]);
  expect(canBeLog(lines)).toBe(true);
  expect(canBeLog(plotColumns(ranks([0], [-1]), 'step'))).toBe(false);
});

test('the title says the last values', () => {
  const summary = (name: string): string => {
    const named = chart(name);
    return latest(named);
  };

  expect(summary('band_chart')).toBe('0.5 · 0.25 to 0.75');
  expect(summary('ranks_chart')).toBe('10.5 to 11.5 · highest 11.8 on rank 2');
});

test('a chart without values says so', () => {
  const empty = ranks([], []);

  expect(latest(empty)).toBe('no values yet');
});

test('at a step a line has its nearest value, and none before it began or after it ended', () => {
  const column = [null, 1, null, null, 2, null];

  expect([0, 1, 2, 3, 4, 5].map(row => rowAt(column, row))).toEqual([null, 1, 1, 4, 4, null]);
});
