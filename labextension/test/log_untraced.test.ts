/** @jest-environment jsdom */
import './page';
import { RunLog } from '../src/log/run_log';
import { Untraced } from '../src/log/untraced';
import type { LogRows } from '../src/log/rows';
import { delta, FakeTurns } from './log_fakes';

const INTERRUPTED = (rank: number): string[] => [
  `[rank${rank}]: Traceback (most recent call last):`,
  `[rank${rank}]:   File "cell.py", line ${rank}`,
  `[rank${rank}]: KeyboardInterrupt`,
];

function logOf(...texts: string[][]): RunLog {
  const turns = new FakeTurns();
  const log = new RunLog({ turns });
  log.receive(
    texts.map((lines, rank) => delta(rank, 0, lines)),
    null,
  );
  turns.all();
  return log;
}

const textsOf = (rows: LogRows): string[] => Array.from({ length: rows.count }, (_, at) => rows.row(at).text);

test('the tracebacks of a stop are folded away, and what was printed around them stays', () => {
  const log = logOf(['step 1', ...INTERRUPTED(0), '', 'saved'], ['step 2', ...INTERRUPTED(1)]);

  const rows = new Untraced(log.all, () => true);

  expect(textsOf(rows).sort()).toEqual(['saved', 'step 1', 'step 2']);
  expect(rows.hidden).toBe(7);
  expect(rows.row(rows.find(0, 5, 0)).text).toBe('saved');
});

test('of a failure the first rank keeps its traceback, at which the log opens', () => {
  const error = ['Traceback (most recent call last):', '  File "cell.py", line 9', 'ValueError: bad batch'];
  const log = logOf(INTERRUPTED(0), error);

  const rows = new Untraced(log.all, rank => rank !== 1);

  expect(textsOf(rows)).toEqual(error);
  expect(rows.firstError).toBe(0);
});

test('lines that come later are searched, too', () => {
  const log = logOf(['step 1']);
  const rows = new Untraced(log.rank(0), () => true);
  const changes: number[][] = [];
  rows.subscribe((...change) => changes.push(change));

  log.receive([delta(0, 1, [...INTERRUPTED(0), 'over'])], null);

  expect(textsOf(rows)).toEqual(['step 1', 'over']);
  expect(changes.at(-1)!.slice(2)).toEqual([rows.count]);
});
