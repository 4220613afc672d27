/** @jest-environment node */
import { expect, test } from '@jest/globals';

import { RunLog } from '../src/log/run_log';
import { LogSearch, rangesWith } from '../src/log/search';
import { delta, FakeTurns, numbered } from './log_fakes';

const matches = (search: LogSearch) => [...search.matches.items.subarray(0, search.count)];

function makeSearch(lines: string[], tick = 0) {
  const turns = new FakeTurns(tick);
  const log = new RunLog({ turns });
  log.receive([delta(0, 0, lines)], null);
  turns.all();
  const search = new LogSearch(log.rank(0), log.slices, () => undefined);
  return { turns, log, search };
}

test('text is found whatever its case, without the colours in it', () => {
  const { search } = makeSearch(['hay', 'a \x1b[31mNee\x1b[0mdle', 'hay', 'needles']);

  search.setQuery('NEEDLE');

  expect(matches(search)).toEqual([1, 3]);
  expect(search.complete).toBe(true);
});

test('packed blocks are searched as well as new lines, and those that come later', () => {
  const lines = numbered(20_000);
  lines[3] = 'Needle';
  lines[9000] = lines[9001] = 'a needle and a needle';
  const { log, turns, search } = makeSearch(lines);

  search.setQuery('needle');
  turns.all();
  expect(matches(search)).toEqual([3, 9000, 9001]);

  log.receive([delta(0, 20_000, ['hay', 'needle'])], null);
  turns.all();
  expect(matches(search)).toEqual([3, 9000, 9001, 20_001]);
});

test('a long search takes turns, and its matches grow', () => {
  const { turns, search } = makeSearch(numbered(50_000), 1);

  search.setQuery('line');
  const first = search.count;
  turns.all();

  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(50_000);
  expect(search.count).toBe(50_000);
});

test('matches are found at their new places when missing lines come', () => {
  const { log, turns, search } = makeSearch(['needle']);
  log.receive([delta(0, 4, ['needle'])], null);
  search.setQuery('needle');
  turns.all();
  expect(matches(search)).toEqual([0, 2]);

  log.receive([delta(0, 1, ['hay', 'needle', 'hay'])], null);
  turns.all();

  expect(matches(search)).toEqual([0, 2, 4]);
});

test('in the merged log a line of several ranks is one match', () => {
  const turns = new FakeTurns();
  const log = new RunLog({ turns });
  log.receive(
    [0, 1, 2].map(rank => delta(rank, 0, ['needle', `needle ${rank}`])),
    null,
  );
  const search = new LogSearch(log.all, log.slices, () => undefined);

  search.setQuery('needle');
  turns.all();

  expect(matches(search)).toEqual([0, 1, 2, 3]);
});

test('an empty query finds nothing', () => {
  const { search, turns } = makeSearch(['a']);
  search.setQuery('a');

  search.setQuery('');
  turns.all();

  expect(search.count).toBe(0);
  expect(search.complete).toBe(true);
});

test.each([
  ['loss', 'Loss and loss', [[0, 4], [9, 13]]], // prettier-ignore
  ['aa', 'aaaa', [[0, 2], [2, 4]]], // prettier-ignore
  ['(x)', 'İ (X)', [[2, 5]]],
  ['none', 'text', []],
])('%s in %s', (query, text, ranges) => {
  expect(rangesWith(query, text)).toEqual(ranges);
});

test('a standing search goes on where the oldest lines are dropped, and searches nothing twice', () => {
  const turns = new FakeTurns();
  const log = new RunLog({ turns, bound: 200_000 });
  const search = new LogSearch(log.rank(0), log.slices, () => undefined);
  search.setQuery('needle');
  let located = 0;
  const locate = log.rank(0).locate.bind(log.rank(0));
  log.rank(0).locate = at => {
    located++;
    return locate(at);
  };
  const lines = Array.from({ length: 40_000 }, (_, at) => `${at % 1000 ? 'hay' : 'needle'} ${at}`);

  for (let first = 0; first < lines.length; first += 1000) {
    log.receive([delta(0, first, lines.slice(first, first + 1000))], null);
    turns.all();
  }

  const rank = log.rank(0);
  expect(rank.row(0).kind).toBe('dropped');
  expect(search.count).toBeGreaterThan(0);
  expect(located).toBeLessThan(45_000);
  const needles = Array.from({ length: rank.count }, (_, at) => at).filter(at =>
    rank.row(at).text.includes('needle'),
  );
  expect(matches(search)).toEqual(needles);
});
