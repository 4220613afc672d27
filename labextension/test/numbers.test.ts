import {
  bytes,
  bytesOf,
  clock,
  device,
  figure,
  milliseconds,
  rate,
  stepParts,
  tick,
} from '../src/words/formats';

test.each([
  [0, '0:00'],
  [84.9, '1:24'],
  [600, '10:00'],
  [3661, '1:01:01'],
  [-1, '0:00'],
])('%p seconds are %s', (seconds, text) => {
  expect(clock(seconds)).toBe(text);
});

test.each([
  [0.0612345, '0.0612'],
  [0.5, '0.5'],
  [12.74, '12.7'],
  [120, '120'],
  [1204.4, '1,204'],
  [2.5e-4, '2.5e-4'],
  [1.2345e8, '1.23e8'],
  [-0.25, '-0.25'],
  [0, '0'],
  [NaN, 'NaN'],
])('%p is written %s', (value, text) => {
  expect(figure(value)).toBe(text);
});

test.each([
  [0.999, 0.001, '0.999'],
  [0.25, 0.25, '0.25'],
  [1, 0.25, '1.00'],
  [82.5, 2.5, '82.5'],
  [1500, 500, '1,500'],
])('the tick %p, %p apart, is %s', (value, apart, text) => {
  expect(tick(value, apart)).toBe(text);
});

test('memory is in the unit of the whole', () => {
  expect(bytesOf(11.2e9, 80e9)).toEqual(['11.2', '80 GB']);
  expect(bytesOf(0.31e9, 67e9)).toEqual(['310 MB', '67 GB']);
  expect(bytesOf(3e8, 5e8)).toEqual(['300', '500 MB']);
  expect([bytes(312e6), bytes(1.44e9)]).toEqual(['312 MB', '1.4 GB']);
});

test('small things', () => {
  expect([rate(7.94), rate(126.4), rate(0.314)]).toEqual(['7.9', '126', '0.31']);
  expect([device('gpu 1'), device('cpu')]).toEqual(['GPU 1', 'CPU']);
});

test('a step is a rank’s own time and what it waits for others', () => {
  expect(stepParts({ rate: 8, wait: 20 })).toEqual({ own: 100, waiting: 25 });
  expect(stepParts({ rate: 8, wait: 0 })).toEqual({ own: 125, waiting: 0 });
  expect(stepParts({ rate: null, wait: 20 })).toBeNull();
  expect(stepParts({ rate: 0, wait: 20 })).toBeNull();
  expect(stepParts({ rate: 8, wait: null })).toBeNull();
});

test.each([
  [118.4, '118'],
  [8.42, '8.4'],
  [0.314, '0.3'],
  [0, '0'],
  [12_345, '12,345'],
])('%p ms are written %s', (value, text) => {
  expect(milliseconds(value)).toBe(text);
});
