/**
 * Deltas that have come and wait to be read. Where lines come faster than they can be read, the first
 * deltas of the latest message go before what waits: the sender puts the newest lines there.
 */
import type { LogDelta } from '../protocol';

type Take = (delta: LogDelta) => void;

export class Inbox {
  private waiting: LogDelta[] = [];
  /** by what the last message says; MAX_VALUE: all there is has been sent */
  private completeUntil = Number.MAX_VALUE;

  constructor(private readonly take: Take) {}

  /** Read as much of a message as there is time for. */
  receive(deltas: readonly LogDelta[], completeUntil: number | null, timeUp: () => boolean): void {
    // the times of lines are kept in single precision
    this.completeUntil = completeUntil === null ? Number.MAX_VALUE : Math.fround(completeUntil);
    for (let at = 0; at < deltas.length; at++) {
      if (at && timeUp()) {
        this.waiting.push(...deltas.slice(at));
        return;
      }
      this.take(deltas[at]!);
    }
  }

  /** Read what waits; whether all of it has been read. */
  readOn(timeUp: () => boolean): boolean {
    let read = 0;
    while (read < this.waiting.length && !timeUp()) {
      this.take(this.waiting[read++]!);
    }
    this.waiting = this.waiting.slice(read);
    return this.waiting.length === 0;
  }

  /** Lines are complete until then: what waits here is as what has not come, and what others wrote at the same
   * time waits with it, since equal lines are to come together. */
  get limit(): number {
    return this.waiting.reduce(
      (limit, { times }) => Math.min(limit, times.length ? justBefore(Math.fround(times[0]![1])) : limit),
      this.completeUntil,
    );
  }

  /** Whether everything that was written has come and been read. */
  get complete(): boolean {
    return this.completeUntil === Number.MAX_VALUE && this.waiting.length === 0;
  }
}

/** Less than `time`, and more than any earlier time in single precision that a log has. */
function justBefore(time: number): number {
  return time - 1e-9 * Math.max(1, Math.abs(time));
}
