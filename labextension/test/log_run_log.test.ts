/** @jest-environment node */
import { expect, test } from '@jest/globals';

import { type LogRows, RankSets } from '../src/log/rows';
import { RunLog } from '../src/log/run_log';
import { delta, FakeTurns, lineAt, numbered, randomly } from './log_fakes';

const texts = (rows: LogRows) =>
  Array.from({ length: rows.count }, (_, at) => {
    const row = rows.row(at);
    const text = row.kind === 'line' ? row.text : `(${row.kind} ${row.amount})`;
    return `${row.ranks?.label ?? ''} ${text}`;
  });

function makeLog(bound?: number) {
  const turns = new FakeTurns();
  return { turns, log: new RunLog(bound === undefined ? { turns } : { turns, bound }) };
}

test('lines that come again are dropped', () => {
  const { log } = makeLog();

  log.receive([delta(0, 0, ['a', 'b', 'c'])], null);
  log.receive([delta(0, 1, ['b', 'c', 'd'], { partial: 'e' })], null);

  expect(texts(log.rank(0))).toEqual(['0 a', '0 b', '0 c', '0 d']);
  expect(log.rank(0).partial).toBe('e');
  expect(log.incomplete).toBe(false);
});

test('a repetition of old lines does not bring back the line that grew then', () => {
  const { log } = makeLog();
  log.receive([delta(0, 0, ['a', 'b', 'c'], { partial: 'now' })], null);

  log.receive([delta(0, 0, ['a'], { partial: 'then' })], null);

  expect(log.rank(0).partial).toBe('now');
});

test('a gap is one row until its lines come', () => {
  const { log } = makeLog();
  log.receive([delta(0, 0, ['a', 'b']), delta(0, 5, ['f', 'g'])], null);
  expect(texts(log.rank(0))).toEqual(['0 a', '0 b', '0 (missing 3)', '0 f', '0 g']);
  expect(texts(log.all)).toEqual(texts(log.rank(0)));
  expect(log.incomplete).toBe(true);

  log.receive([delta(0, 3, ['d'])], null);
  expect(texts(log.rank(0))).toEqual(['0 a', '0 b', '0 (missing 1)', '0 d', '0 (missing 1)', '0 f', '0 g']);

  log.receive([delta(0, 0, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])], null);
  expect(texts(log.rank(0))).toEqual(['0 a', '0 b', '0 c', '0 d', '0 e', '0 f', '0 g', '0 h']);
  expect(texts(log.all)).toEqual(texts(log.rank(0)));
  expect(log.incomplete).toBe(false);
});

test('a page that was loaded late gets the lines before its first', () => {
  const { log } = makeLog();
  log.receive(
    [delta(0, 500, ['late'], { times: [[1, 50]] }), delta(1, 500, ['late'], { times: [[1, 50]] })],
    null,
  );
  expect(texts(log.all)).toEqual(['0 (missing 500)', '1 (missing 500)', '0–1 late']);

  const times = Array.from({ length: 500 }, (_, at) => [1, at / 10] as const);
  log.receive([delta(0, 0, numbered(500), { times }), delta(1, 0, numbered(500), { times })], null);

  expect(log.all.count).toBe(501);
  expect(log.all.folded).toBe(501);
  expect(log.all.row(499).ranks?.label).toBe('0–1');
});

test('bytes that were passed over are a row until they come after all', () => {
  const { log } = makeLog();

  log.receive([delta(0, 0, ['a'])], null);
  log.receive([delta(0, 78, ['z'], { skipped: 77 })], null);
  expect(texts(log.all)).toEqual(['0 a', '0 (skipped 77)', '0 z']);
  expect(log.incomplete).toBe(false);

  log.receive([delta(0, 1, ['b'])], null);
  expect(texts(log.all)).toEqual(['0 a', '0 b', '0 (skipped 76)', '0 z']);
  log.receive([delta(0, 2, numbered(76))], null);
  expect(log.all.lines).toBe(79);
  expect(log.all.count).toBe(79);
});

test('a delta without lines can tell that lines are missing', () => {
  const { log } = makeLog();

  log.receive([delta(0, 7, [], { partial: '48 %' })], null);

  expect(log.incomplete).toBe(true);
});

test('lines of all ranks come by time, then by rank', () => {
  const { log } = makeLog();

  log.receive(
    [
      delta(1, 0, ['one at 1', 'one at 3'], { times: [[1, 1], [1, 3]] }), // prettier-ignore
      delta(0, 0, ['nought at 2', 'nought at 3'], { times: [[1, 2], [1, 3]] }), // prettier-ignore
    ],
    null,
  );

  expect(texts(log.all)).toEqual(['1 one at 1', '0 nought at 2', '0 nought at 3', '1 one at 3']);
});

test('lines later than what is complete wait for their turn', () => {
  const { log } = makeLog();
  log.receive([delta(0, 0, ['early', 'late'], { times: [[1, 1.1], [1, 5]] })], 1.1); // prettier-ignore
  expect(texts(log.all)).toEqual(['0 early']);

  log.receive([delta(1, 0, ['between'], { times: [[1, 3]] })], 5);

  expect(texts(log.all)).toEqual(['0 early', '1 between', '0 late']);
});

test('the same line of several ranks is shown once', () => {
  const { log } = makeLog();

  log.receive(
    [0, 1, 2, 3].map(rank => delta(rank, 0, ['hello', `rank ${rank}`, 'bye'])),
    null,
  );

  expect(texts(log.all)).toEqual(['0–3 hello', '0 rank 0', '1 rank 1', '2 rank 2', '3 rank 3', '0–3 bye']);
  expect([log.all.lines, log.all.folded]).toEqual([12, 6]);
});

test('what ranks write at one time and do not share stays together', () => {
  const { log } = makeLog();

  log.receive(
    [0, 1].map(rank => delta(rank, 0, ['Traceback', `x ${rank}`, `y ${rank}`, `z ${rank}`])),
    null,
  );

  expect(texts(log.all)).toEqual(['0–1 Traceback', '0 x 0', '0 y 0', '0 z 0', '1 x 1', '1 y 1', '1 z 1']);
});

test('of more than can be placed at once the newest lines are shown first, and then all in order', () => {
  const turns = new FakeTurns(1);
  const log = new RunLog({ turns });
  log.receive([delta(0, 0, numbered(10)), delta(1, 0, numbered(10))], null);
  turns.all();

  log.receive(
    [0, 1].map(rank => delta(rank, 10, numbered(30_000, 10, `of ${rank}`))),
    null,
  );

  expect(log.all.row(log.all.count - 1).text).toContain('of 1 30009');
  expect(log.all.count).toBeLessThan(2_000);
  turns.all();
  expect([log.all.lines, log.all.folded]).toEqual([60_020, 10]);
  for (const rank of [0, 1]) {
    const own = texts(log.all).filter(text => text.startsWith(`${rank} of ${rank}`));
    expect(own).toEqual(numbered(30_000, 10, `of ${rank}`).map(text => `${rank} ${text}`));
  }
});

test('a line does not join one of two seconds before', () => {
  const { log } = makeLog();

  log.receive(
    [delta(0, 0, ['tick'], { times: [[1, 1]] }), delta(1, 0, ['tick'], { times: [[1, 3.5]] })],
    null,
  );

  expect(texts(log.all)).toEqual(['0 tick', '1 tick']);
});

/** Return the lines of each rank, read back from the merged log. */
function readBack(rows: LogRows, ranks: number): string[][] {
  const lines: string[][] = Array.from({ length: ranks }, () => []);
  for (let at = 0; at < rows.count; at++) {
    const row = rows.row(at);
    row.ranks?.ranks.forEach(rank => lines[rank]!.push(row.kind === 'line' ? row.text : row.kind));
  }
  return lines;
}

test.each([1, 2, 3, 5, 8, 13, 21, 34])('each rank can be read back from the merged log (seed %i)', seed => {
  const random = randomly(seed);
  const { log, turns } = makeLog();
  const ranks = 1 + Math.floor(random() * 6);
  const written = Array.from({ length: ranks }, () =>
    Array.from({ length: 400 }, (_, at) =>
      random() < 0.6 ? `step ${Math.floor(at / 3)}` : `loss ${random()}`,
    ),
  );
  const sent = written.map(() => 0);
  const lost: [number, number, number][] = [];
  while (sent.some(count => count < 400)) {
    const rank = Math.floor(random() * ranks);
    const first = sent[rank]!;
    const count = Math.min(400 - first, 1 + Math.floor(random() * 20));
    sent[rank] = first + count;
    if (random() < 0.2 && sent[rank] < 400) {
      lost.push([rank, first, first + count]);
    } else {
      const now = first / 50 + random() / 10;
      log.receive(
        [delta(rank, first, written[rank]!.slice(first, first + count), { times: [[count, now]] })],
        null,
      );
    }
    if (lost.length && random() < 0.3) {
      // a part of what was lost comes after all
      const [of, from, to] = lost.splice(Math.floor(random() * lost.length), 1)[0]!;
      const middle = from + Math.floor(random() * (to - from));
      for (const [a, b] of random() < 0.5
        ? [[from, to]]
        : [
            [middle, to],
            [from, middle],
          ]) {
        // prettier-ignore
        log.receive([delta(of, a!, written[of]!.slice(a, b), { times: [[b! - a!, a! / 50]] })], null);
      }
    }
    turns.turn();
  }
  lost.forEach(([rank, from, to]) => log.receive([delta(rank, from, written[rank]!.slice(from, to))], null));
  turns.all();

  expect(log.incomplete).toBe(false);
  expect(readBack(log.all, ranks)).toEqual(written);
  written.forEach((lines, rank) =>
    expect(texts(log.rank(rank))).toEqual(lines.map(line => `${rank} ${line}`)),
  );
});

test('the merged log is made in turns', () => {
  const turns = new FakeTurns(1);
  const log = new RunLog({ turns });

  log.receive(
    [0, 1].map(rank => delta(rank, 0, numbered(20_000, 0, `rank ${rank}`))),
    null,
  );
  const first = log.all.count;
  turns.all();

  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThan(20_000);
  expect(log.all.count).toBe(40_000);
});

test('full blocks are packed, and their lines stay within reach', () => {
  const { log, turns } = makeLog();
  const lines = numbered(20_000);

  log.receive([delta(0, 0, lines)], null);
  turns.all();

  expect(log.packedBytes).toBeGreaterThan(0);
  expect(log.packedBytes).toBeLessThan(1_000_000);
  expect(lineAt(log.rank(0), 0)).toBe(lines[0]);
  expect(lineAt(log.rank(0), 12_345)).toBe(lines[12_345]);
  expect(lineAt(log.rank(0), 19_999)).toBe(lines[19_999]);
  expect(lineAt(log.rank(0), 20_000)).toBeUndefined();
});

test('text of any script survives packing', () => {
  const { log, turns } = makeLog();
  const lines = Array.from(
    { length: 3000 },
    (_, at) => `损失 ${at} \x1b[31mrot\x1b[0m é 🙂 ${'x'.repeat(30)}`,
  );

  log.receive([delta(0, 0, lines)], null);
  turns.all();

  expect(lineAt(log.rank(0), 7)).toBe(lines[7]);
});

test('beyond the bound the oldest lines go, and a row says so', () => {
  const random = randomly(3);
  const { log, turns } = makeLog(300_000);
  const line = () => `${random()} ${random()} ${random()}`;

  for (let first = 0; first < 20_000; first += 1000) {
    log.receive(
      [0, 1].map(rank => delta(rank, first, Array.from({ length: 1000 }, line), { times: [[1000, first]] })),
      null,
    );
    turns.all();
  }

  const rank = log.rank(0);
  expect(log.packedBytes).toBeLessThanOrEqual(300_000);
  expect(rank.first).toBeGreaterThan(10_000);
  expect(rank.row(0)).toMatchObject({ kind: 'dropped', amount: rank.first });
  expect(rank.row(1)).toMatchObject({ kind: 'line', line: rank.first });
  expect(lineAt(rank, rank.first - 1)).toBeUndefined();
  expect(log.all.row(0).kind).toBe('dropped');
  expect(log.all.row(1)).toMatchObject({ kind: 'line' });
  expect(log.all.row(log.all.count - 1)).toMatchObject({ kind: 'line', line: 19_999 });
  // what has been dropped does not come back as something missing
  log.receive([delta(0, 0, ['old'])], null);
  expect(rank.row(0).kind).toBe('dropped');
  expect(log.incomplete).toBe(false);
});

test('errors are counted by rank, a traceback with its exception once', () => {
  const { log } = makeLog();

  log.receive(
    [
      delta(0, 0, ['fine', 'val_error: 0.2']),
      delta(1, 0, [
        'fine',
        'Traceback (most recent call last):',
        '  File "x"',
        'ValueError: no',
        'KeyError: "b"',
      ]),
    ],
    null,
  );

  expect([log.errors(0), log.errors(1), log.errors(2)]).toEqual([0, 2, 0]);
  expect(log.rank(1).row(log.rank(1).firstError).text).toContain('Traceback');
  expect(log.all.row(log.all.firstError).text).toContain('Traceback');
  expect(log.rank(0).firstError).toBe(-1);
});

test('listeners are told until they leave', () => {
  const { log } = makeLog();
  let calls = 0;
  const leave = log.subscribe(() => calls++);

  log.receive([delta(0, 0, ['a'])], null);
  const before = calls;
  leave();
  log.receive([delta(0, 1, ['b'])], null);

  expect(before).toBeGreaterThan(0);
  expect(calls).toBe(before);
});

test.each([0, 1])('the row of missing lines tells how much, also while others are put in place', tick => {
  const turns = new FakeTurns(tick);
  const log = new RunLog({ turns });
  log.receive([delta(0, 10_000_000, numbered(300, 10_000_000))], null);
  turns.all();
  let first = 10_000_000;
  for (let portion = 0; portion < 12; portion++) {
    first -= 4000;
    log.receive([delta(0, first, numbered(4000, first))], null);
    for (let turn = 0; turn < 5; turn++) {
      turns.turn();
    }
    const gaps = Array.from({ length: log.all.count }, (_, at) => log.all.row(at)).filter(
      row => row.kind === 'missing',
    );
    expect(gaps.map(row => row.amount)).toEqual([first]);
  }
});

test('the sets of ranks that write equal lines in any order take bits of their lines, and give them back', () => {
  const sets = new RankSets();
  const random = randomly(7);
  const lines = Array.from({ length: 2000 }, () => {
    const order = Array.from({ length: 128 }, (_, rank) => ({ rank, at: random() })).sort((a, b) =>
      a.at < b.at ? -1 : 1,
    );
    return order.slice(1).reduce((id, { rank }) => sets.plus(id, rank), order[0]!.rank);
  });
  const small = sets.plus(sets.plus(7, 300), 2);

  expect(lines.every(id => sets.size(id) === 128 && sets.of(id).label === '0–127')).toBe(true);
  expect([sets.of(small).label, sets.size(small), sets.of(300).label]).toEqual(['2,7,300', 3, '300']);
  const last = Math.max(small, ...lines);
  [small, ...lines].forEach(id => sets.drop(id));
  const again = Array.from({ length: 2001 }, () => sets.plus(1, 2));
  expect(Math.max(...again)).toBe(last);
  expect(sets.of(again[0]!).label).toBe('1–2');
});

test('short lines count with their indexes, so that millions of them stay within the bound', () => {
  const { log, turns } = makeLog(300_000);

  for (let first = 0; first < 60_000; first += 10_000) {
    log.receive([delta(0, first, new Array<string>(10_000).fill('x'))], null);
    turns.all();
  }

  expect(log.rank(0).row(0).kind).toBe('dropped');
  expect(log.rank(0).lines).toBeLessThan(30_000);
});

test('a job that throws is dropped, and the others go on', () => {
  const { log, turns } = makeLog();
  let done = false;
  log.slices.add(() => {
    throw new Error('broken');
  });
  log.slices.add(() => (done = true));

  expect(() => turns.all()).toThrow('broken');
  turns.all();

  expect(done).toBe(true);
});
