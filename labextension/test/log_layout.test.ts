import { expect, test } from '@jest/globals';

import { RowHeights, ScrollScale } from '../src/log_view/layout';
import { RunLog } from '../src/log/run_log';
import { delta, FakeTurns, numbered, randomly } from './log_fakes';

function makeRows(lengths: number[]) {
  const log = new RunLog({ turns: new FakeTurns() });
  log.receive(
    [
      delta(
        0,
        0,
        lengths.map(length => 'x'.repeat(length)),
      ),
    ],
    null,
  );
  return { log, rows: log.rank(0) };
}

test('without wrapping every row is one line high', () => {
  const { rows } = makeRows([10, 500, 0]);
  const heights = new RowHeights();

  heights.set(rows, 0);

  expect([heights.total, heights.above(2), heights.rowAt(1.5), heights.rowAt(99)]).toEqual([3, 2, 1, 2]);
});

test('with wrapping a row is as high as its columns ask for', () => {
  const { rows } = makeRows([10, 100, 101, 0, 250]);
  const heights = new RowHeights();

  heights.set(rows, 100);

  expect([0, 1, 2, 3, 4].map(row => heights.height(row))).toEqual([1, 1, 2, 1, 3]);
  expect(heights.total).toBe(8);
  expect([0, 1, 2, 3.9, 4, 5, 7].map(line => heights.rowAt(line))).toEqual([0, 1, 2, 2, 3, 4, 4]);
});

test('places and rows agree in many rows of many heights', () => {
  const random = randomly(7);
  const { rows } = makeRows(Array.from({ length: 5000 }, () => Math.floor(random() * 400)));
  const heights = new RowHeights();
  heights.set(rows, 80);

  for (let row = 0; row < 5000; row += 37) {
    expect(heights.rowAt(heights.above(row))).toBe(row);
    expect(heights.rowAt(heights.above(row) + heights.height(row) - 0.1)).toBe(row);
  }
  expect(heights.total).toBe(heights.above(4999) + heights.height(4999));
});

test('rows that come and go, and another width, give the heights of a fresh look', () => {
  const { log, rows } = makeRows([10, 300, 20]);
  const heights = new RowHeights();
  heights.set(rows, 100);
  rows.subscribe((at, removed, added) => heights.change(rows, at, removed, added));

  log.receive([delta(0, 5, ['x'.repeat(250), 'y'])], null);
  log.receive([delta(0, 3, ['x'.repeat(900), 'z'])], null);
  heights.set(rows, 50);

  const fresh = new RowHeights();
  fresh.set(rows, 50);
  expect(Array.from({ length: rows.count }, (_, row) => heights.height(row))).toEqual(
    Array.from({ length: rows.count }, (_, row) => fresh.height(row)),
  );
  expect(heights.total).toBe(fresh.total);
});

test('a measured row moves those below it', () => {
  const { rows } = makeRows([10, 100, 10]);
  const heights = new RowHeights();
  heights.set(rows, 20);

  expect(heights.measured(1, 5)).toBe(false);
  expect(heights.measured(1, 3)).toBe(true);

  expect([heights.above(2), heights.total]).toEqual([4, 5]);
});

test('content below the bound is scrolled as it is', () => {
  const scale = new ScrollScale(8000);
  scale.resize(8000, 300);

  expect(scale.height).toBe(8000);
  scale.moveTo(1234);
  expect(scale.position).toBe(1234);
  scale.scrolled(4321);
  expect(scale.top).toBe(4321);
  scale.moveTo(99_999);
  expect(scale.position).toBe(7700);
});

test('content above the bound can be scrolled from end to end', () => {
  const scale = new ScrollScale(8000);
  scale.resize(100_000, 300);

  expect(scale.height).toBe(8000);
  scale.scrolled(7700);
  expect(scale.top).toBe(99_700);
  scale.scrolled(0);
  expect(scale.top).toBe(0);
  scale.scrolled(3850);
  expect(scale.top).toBeCloseTo(49_850);
});

test('every row of large content can be brought into view', () => {
  const { rows } = makeRows([1]);
  const heights = new RowHeights();
  heights.set(rows, 0);
  const scale = new ScrollScale(8000);
  scale.resize(50_000, 300);

  for (let top = 0; top <= 49_700; top += 90) {
    scale.moveTo(top);
    expect(scale.position).toBeGreaterThanOrEqual(0);
    expect(scale.position).toBeLessThanOrEqual(7700);
    expect(scale.top).toBe(top);
  }
});

test('growing content keeps the place of the reader', () => {
  const scale = new ScrollScale(8000);
  scale.resize(20_000, 300);
  scale.moveTo(9000);

  scale.resize(60_000, 300);

  expect(scale.top).toBe(9000);
});

test('columns of folded rows have room for their number', () => {
  const log = new RunLog({ turns: new FakeTurns() });
  log.receive(
    [0, 1].map(rank => delta(rank, 0, [...numbered(1), `${rank}`])),
    null,
  );
  const columns = new Uint16Array(3);

  log.all.columns(0, 3, columns);

  expect(columns[0]).toBeGreaterThan(numbered(1)[0]!.length);
  expect([...columns.subarray(1)]).toEqual([1, 1]);
});
