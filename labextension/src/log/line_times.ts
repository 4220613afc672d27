import type { LogDelta } from '../protocol';

/** The times of lines, one by one, from runs of equal times. */
export class LineTimes {
  private run = 0;
  private used = 0;

  constructor(
    private readonly times: LogDelta['times'],
    passed: number,
  ) {
    for (let i = 0; i < passed; i++) {
      this.next();
    }
  }

  next(): number {
    while (this.run < this.times.length - 1 && this.used >= this.times[this.run]![0]) {
      this.run++;
      this.used = 0;
    }
    this.used++;
    return this.times[this.run]?.[1] ?? 0;
  }
}
