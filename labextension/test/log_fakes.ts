/** Turns and deltas for the tests of the log. */
import type { Turns } from '../src/log/slices';
import type { LogDelta } from '../src/protocol';

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

export function delta(rank: number, first: number, lines: string[], rest: Partial<LogDelta> = {}): LogDelta {
  const count = lines.length;
  return { rank, first, count, lines, times: [[count, first]], partial: '', skipped: 0, ...rest };
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
