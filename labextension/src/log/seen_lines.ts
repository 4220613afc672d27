import type { RunLog } from './run_log';

/**
 * How far the logs had come at some moment. What is written later is new; older lines, which come when somebody
 * asks for them, are not.
 */
export class SeenLines {
  private readonly ends: ReadonlyMap<number, number>;

  constructor(
    private readonly log: RunLog,
    /** of which rank; null for all */
    private readonly rank: number | null,
  ) {
    this.ends = new Map(this.ranks.map(rank => [rank, log.rank(rank).end]));
  }

  /** Lines that were written since. */
  get later(): number {
    return this.ranks.reduce((sum, rank) => {
      const { end, lines } = this.log.rank(rank);
      const seen = this.ends.get(rank);
      return sum + (seen === undefined ? lines : Math.max(0, end - seen));
    }, 0);
  }

  private get ranks(): readonly number[] {
    return this.rank === null ? this.log.ranks : [this.rank];
  }
}
