import { RunLog } from '../src/log/run_log';
import { delta, FakeTurns, numbered } from './log_fakes';

const END = 10_000_000;
const BYTES = 1_000_000_000;

function texts(log: RunLog): string[] {
  return Array.from({ length: log.all.count }, (_, at) => log.all.row(at).text);
}

function opened(ranks = 1): { log: RunLog; turns: FakeTurns } {
  const turns = new FakeTurns();
  const log = new RunLog({ turns });
  for (let rank = 0; rank < ranks; rank++) {
    log.receive([delta(rank, BYTES, numbered(300, END, `rank ${rank}`))], null);
    log.rank(rank).provisional = true;
  }
  return { log, turns };
}

test('lines that are counted later keep their places and get their numbers', () => {
  const { log } = opened(2);
  const before = texts(log);
  expect(log.all.row(0)).toMatchObject({ kind: 'missing', amount: NaN });

  log.renumber(0, END - BYTES);
  log.renumber(1, END - BYTES);
  log.receive([delta(0, END + 300, ['one more'])], null);

  expect(texts(log)).toEqual([...before, 'one more']);
  expect(log.all.row(0)).toMatchObject({ kind: 'missing', amount: END });
  expect(log.rank(0).row(1).line).toBe(END);
  expect(log.rank(0).missing).toBe(END);
  expect(log.provisional).toBe(false);
});

test('what was forgotten may come again with other numbers', () => {
  const { log } = opened(2);

  log.forget();
  expect(texts(log)).toEqual([]);
  log.receive([delta(0, 5, ['a', 'b']), delta(1, 0, ['c'])], null);

  expect(texts(log).filter(Boolean)).toEqual(expect.arrayContaining(['a', 'b', 'c']));
  expect(log.rank(0).missing).toBe(5);
});

test.each([0, 1])('the row of missing lines tells how many, also while others are put in place', tick => {
  const turns = new FakeTurns(tick);
  const log = new RunLog({ turns });
  log.receive([delta(0, END, numbered(300, END))], null);
  turns.all();
  let first = END;
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
