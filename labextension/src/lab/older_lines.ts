/**
 * Lines that the page does not have yet: of a short log all are asked for, of a long one those that the
 * reader scrolls to. One question at a time for each rank, so that a log of a gigabyte costs what is looked
 * at.
 */
import type { RunModel } from '../model';

/** lines in one question, and lines that are asked for before anybody wants them */
const PORTION = 4000;
const AHEAD = 20_000;

export type Pull = (rank: number, first: number, count: number) => boolean;

export class OlderLines {
  private readonly asked = new Map<number, string>();
  private ahead = AHEAD;

  constructor(
    private readonly run: RunModel,
    private readonly pull: Pull,
  ) {}

  /** Call when something has come. */
  advance(): void {
    for (const rank of this.run.log.ranks) {
      if (this.ahead > 0) {
        this.ahead -= this.ask(rank);
      }
    }
  }

  /** The reader looks at a place where lines are missing, of this rank or of any. */
  wanted(selected: number | null): void {
    if (this.run.log.placing) {
      return; // what has come is to stand in its place before more comes, or it never would
    }
    const ranks = selected === null ? this.run.log.ranks : [selected];
    ranks.forEach(rank => this.ask(rank));
  }

  /** Another connection: what was asked of the last one may never come. */
  forget(): void {
    this.asked.clear();
  }

  /** Asks for the lines at the end of the last gap; how many. */
  private ask(rank: number): number {
    const gap = this.lastGap(rank);
    if (!gap) {
      return 0;
    }
    const count = Math.min(PORTION, gap.missing);
    const first = gap.end - count;
    const question = `${first}+${count}`;
    if (this.asked.get(rank) === question || !this.pull(rank, first, count)) {
      return 0;
    }
    this.asked.set(rank, question);
    return count;
  }

  private lastGap(rank: number): { end: number; missing: number } | null {
    const { blocks, provisional } = this.run.log.rank(rank);
    if (provisional) {
      return null;
    }
    for (let at = blocks.length - 1; at >= 0; at--) {
      const { first, missing } = blocks[at]!;
      if (missing > 0) {
        return { end: first, missing };
      }
    }
    return null;
  }
}
