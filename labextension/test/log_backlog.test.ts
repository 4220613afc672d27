/** @jest-environment node */
import { expect, test } from '@jest/globals';

import type { LogRows } from '../src/log/rows';
import { RunLog } from '../src/log/run_log';
import type { LogDelta } from '../src/protocol/log';
import { delta, FakeTurns, numbered, randomly } from './log_fakes';

const RANKS = [0, 1, 2];

/** Lines `from` to `to` of a rank, each written at the second of its number. */
function lines(rank: number, from: number, to: number): LogDelta {
  const times = Array.from({ length: to - from }, (_, at) => [1, from + at] as const);
  return delta(rank, from, numbered(to - from, from, `rank ${rank} line`), { times });
}

const texts = (rows: LogRows) => Array.from({ length: rows.count }, (_, at) => rows.row(at).text);

test('the newest lines of a backlog are shown while those before them are on their way', () => {
  const turns = new FakeTurns();
  const log = new RunLog({ turns });
  log.receive([lines(0, 0, 10)], null);

  log.receive([lines(0, 900, 1000), lines(0, 10, 200)], 199);
  turns.all();

  expect(log.all.row(log.all.count - 1).text).toContain('line 999 ');
  expect(log.settled).toBe(false);
  expect(log.incomplete).toBe(false);

  log.receive([lines(0, 200, 1000)], null);
  turns.all();

  expect(texts(log.all)).toEqual(numbered(1000, 0, 'rank 0 line'));
  expect(log.settled).toBe(true);
});

test('what all ranks wrote at the same time is folded, though a page had no time to read it at once', () => {
  const turns = new FakeTurns(4);
  const log = new RunLog({ turns });
  const times = [[40, 3.1]] as const;
  const texts = Array.from({ length: 40 }, (_, at) => at);

  log.receive(
    RANKS.map(rank =>
      delta(
        rank,
        0,
        texts.map(at => (at % 2 ? `epoch ${at}` : `loss ${at} of ${rank}`)),
        { times },
      ),
    ),
    null,
  );
  turns.all();

  expect(log.all.folded).toBe(2 * 20);
  expect(log.settled).toBe(true);
});

test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'a backlog is shown in order in the end, whatever came first: %i',
  seed => {
    const random = randomly(seed);
    const turns = new FakeTurns(seed % 2 ? 0.4 : 0);
    const log = new RunLog({ turns });
    const sent = [0, 0, 0];
    const written = [0, 0, 0];
    const total = 3000;
    while (sent.some(each => each < total)) {
      const newest: LogDelta[] = [];
      const older: LogDelta[] = [];
      for (const rank of RANKS) {
        written[rank] = Math.min(total, written[rank]! + Math.floor(random() * 500));
        const to = Math.min(written[rank]!, sent[rank]! + Math.floor(random() * 200) + 1);
        if (written[rank]! > to) {
          newest.push(lines(rank, Math.max(to, written[rank]! - 20), written[rank]!));
        }
        older.push(lines(rank, Math.floor(sent[rank]! * random()), to));
        sent[rank] = to;
      }
      const done = sent.every((each, rank) => each === written[rank]);
      log.receive([...newest, ...older], done ? null : Math.min(...sent) - 1);
      if (random() < 0.6) {
        turns.turn();
      }
      const shown = RANKS.map(rank => rowsOf(log, rank));
      for (const numbers of shown) {
        expect(numbers.every((number, at) => !at || number > numbers[at - 1]!)).toBe(true);
      }
    }
    turns.all();

    expect(log.settled).toBe(true);
    expect(log.incomplete).toBe(false);
    const rows = Array.from({ length: log.all.count }, (_, at) => log.all.row(at));
    expect(rows.map(row => row.time)).toEqual(rows.map(row => row.time).sort((a, b) => a - b));
    for (const rank of RANKS) {
      expect(rowsOf(log, rank)).toEqual(Array.from({ length: total }, (_, at) => at));
      expect(texts(log.rank(rank))).toEqual(numbered(total, 0, `rank ${rank} line`));
    }
  },
);

/** Numbers of a rank's lines as all ranks together show them. */
function rowsOf(log: RunLog, rank: number): number[] {
  return Array.from({ length: log.all.count }, (_, at) => log.all.row(at))
    .filter(row => row.kind === 'line' && row.rank === rank)
    .map(row => row.line);
}

test('a message that takes long is read on later, and the first part of the next goes before it', () => {
  const turns = new FakeTurns(4);
  const log = new RunLog({ turns });
  const pieces = Array.from({ length: 50 }, (_, at) => lines(0, at * 100, at * 100 + 100));

  log.receive(pieces, 4000);
  log.receive([lines(0, 9000, 9010)], 4000);

  expect(log.rank(0).next).toBe(9010);
  expect(log.rank(0).lines).toBeLessThan(5010);
  turns.all();
  expect(log.rank(0).lines).toBe(5010);
});
