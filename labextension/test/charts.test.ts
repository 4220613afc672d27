import { axisOf, canBeLog, inFittingUnit, latest, linesOf, logByDefault, positive } from '../src/chart_data';
import { decode } from '../src/decode';
import type { Chart, Update } from '../src/protocol';
import { WORDS } from '../src/words';
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
  };
}

test('a metric is drawn over steps or time, what the machine measured over time alone', () => {
  expect(axisOf(chart('band_chart'), 'step')).toBe('step');
  expect(axisOf(chart('band_chart'), 'time')).toBe('time');
  expect(axisOf(chart('ranks_chart'), 'step')).toBe('time');
});

test('where a rank has no value there is a gap', () => {
  expect(linesOf(chart('ranks_chart'), 'time')).toEqual([
    [2, 4],
    [11.25, 11.5],
    [null, 10.5],
  ]);
});

test('points that came in another order are drawn in theirs', () => {
  expect(linesOf(ranks([3, 1, 2], [30, 10, 20]), 'step')).toEqual([
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
      linesOf(
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
  const lines = linesOf(ranks([0, 1], [-1, 2]), 'step');

  expect(positive(lines)).toEqual([
    [0, 1],
    [null, 2],
  ]);
  expect(canBeLog(lines)).toBe(true);
  expect(canBeLog(linesOf(ranks([0], [-1]), 'step'))).toBe(false);
});

test('the title says the last values', () => {
  const said = (name: string): string => {
    const found = chart(name);
    return latest(found, linesOf(found, 'time'), WORDS.en);
  };

  expect(said('band_chart')).toBe('0.5 · 0.25 to 0.75');
  expect(said('ranks_chart')).toBe('highest 11.5 on rank 0');
});

test('a chart without values says so', () => {
  const empty = ranks([], []);

  expect(latest(empty, linesOf(empty, 'step'), WORDS.en)).toBe('no values yet');
});

test('memory is told in megabytes where there is less than a gigabyte', () => {
  const used = (...values: number[]) => ({ ...ranks([1, 2], values), unit: 'GB' });
  const shown = inFittingUnit(used(0.25, 0.5));

  expect([shown.unit, ...shown.columns[2]!]).toEqual(['MB', 250, 500]);
  expect(inFittingUnit(used(0.25, 1.5)).unit).toBe('GB');
  expect(inFittingUnit(used(NaN, 0.5)).unit).toBe('MB');
  expect(inFittingUnit(ranks([1], [0.5])).unit).toBe('');
});
