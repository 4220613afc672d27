/** Turns and deltas for the tests of the log. */
import type { RankLog } from '../src/log/rank_log';
import type { Turns } from '../src/log/slices';
import type { LogDelta } from '../src/protocol/log';

/** Turns that pass when a test says so; a clock that moves on by `tick` whenever it is read. */
export class FakeTurns implements Turns {
  time = 0;
  private waiting: (() => void)[] = [];

  constructor(private readonly tick = 0) {}

  now(): number {
    this.time += this.tick;
    return this.time;
  }

  later(run: () => void): void {
    this.waiting.push(run);
  }

  whenQuiet(run: () => void): void {
    this.later(run);
  }

  /** One turn; false when none was waited for. */
  turn(): boolean {
    const run = this.waiting.shift();
    run?.();
    return run !== undefined;
  }

  /** Turns until there is nothing left; how many. */
  all(): number {
    let turns = 0;
    while (this.turn()) {
      turns++;
    }
    return turns;
  }
}

/** Lines of which each has one address, whatever it says. */
export function delta(rank: number, first: number, lines: string[], rest: Partial<LogDelta> = {}): LogDelta {
  const count = lines.length;
  const edges = Array.from({ length: count + 1 }, (_, at) => first + at);
  const end = first + count;
  return { rank, first, count, end, edges, lines, times: [[count, first]], partial: '', skipped: 0, ...rest };
}

/** The text of the line at an address; undefined where there is none. */
export function lineAt(log: RankLog, address: number): string | undefined {
  const row = log.count ? log.row(log.find(log.rank, address)) : null;
  return row?.kind === 'line' && row.line === address ? row.text : undefined;
}

/** `count` lines of about fifty characters, from number `first` on. */
export function numbered(count: number, first = 0, name = 'line'): string[] {
  return Array.from({ length: count }, (_, at) => `${name} ${first + at} ${'.'.repeat(40)}`);
}

/** Numbers in 0…1 that are the same in every run of a test. */
export function randomly(seed: number): () => number {
  let state = seed * 2654435761 || 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2246822519) + 374761393) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}
