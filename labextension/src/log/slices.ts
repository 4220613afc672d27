/** Long work in short turns, so that the page answers in between. */

/** The clock and scheduler of slices; tests bring their own. */
export interface Turns {
  /** milliseconds */
  now(): number;
  /** call `run` soon, in a turn of its own */
  later(run: () => void): void;
  /** call `run` when this has not been asked for some time; of several only the last */
  whenQuiet(run: () => void): void;
}

/** Does a part of its work and stops when `timeUp()`; true when all is done. */
type Job = (timeUp: () => boolean) => boolean;

/** milliseconds */
const QUIET_MS = 500;

export class Slices {
  private jobs: Job[] = [];
  private waiting = false;
  /** milliseconds that are left for `now` before the next turn */
  private left: number;

  constructor(
    private readonly turns: Turns,
    /** milliseconds of work a turn */
    private readonly budget = 6,
  ) {
    this.left = budget;
  }

  get idle(): boolean {
    return this.jobs.length === 0;
  }

  /** Work on `job` in turns until it is done. An urgent one goes before the others. */
  add(job: Job, urgent = false): void {
    if (!this.jobs.includes(job)) {
      if (urgent) {
        this.jobs.unshift(job);
      } else {
        this.jobs.push(job);
      }
    }
    this.wait();
  }

  remove(job: Job): void {
    this.jobs = this.jobs.filter(other => other !== job);
  }

  /** Do what fits into a turn now; what is left comes later. A browser hands on many messages in one task: together
   * they have the time of one turn. */
  now(job: Job): void {
    const begun = this.turns.now();
    if (this.left <= 0 || !job(this.timeUp(this.left))) {
      this.add(job, true);
    }
    this.left -= this.turns.now() - begun;
    this.wait();
  }

  private timeUp(budget = this.budget): () => boolean {
    const end = this.turns.now() + budget;
    return () => this.turns.now() >= end;
  }

  private wait(): void {
    if (!this.waiting && (this.jobs.length || this.left < this.budget)) {
      this.waiting = true;
      this.turns.later(() => {
        this.waiting = false;
        this.left = this.budget;
        try {
          this.turn();
        } finally {
          this.wait();
        }
      });
    }
  }

  private turn(): void {
    const timeUp = this.timeUp();
    do {
      const job = this.jobs[0];
      if (!job) {
        return;
      }
      let done = true;
      try {
        done = job(timeUp);
      } finally {
        // one that throws would keep all others waiting
        if (done) {
          this.remove(job);
        }
      }
    } while (!timeUp());
  }
}

/** Return the browser's turns. Messages and not timers: those are held back to once a second in hidden pages. */
export function browserTurns(): Turns {
  const now = () => performance.now();
  let quiet: ReturnType<typeof setTimeout> | undefined;
  const whenQuiet = (run: () => void): void => {
    clearTimeout(quiet);
    quiet = setTimeout(run, QUIET_MS);
  };
  later ??= turnsOfMessages();
  return { now, whenQuiet, later };
}

/** shared by all logs of the page: a channel stays open */
let later: Turns['later'] | undefined;

function turnsOfMessages(): Turns['later'] {
  if (typeof MessageChannel === 'undefined') {
    return run => void setTimeout(run, 0);
  }
  const waiting: (() => void)[] = [];
  const channel = new MessageChannel();
  channel.port1.onmessage = () => waiting.shift()?.();
  return run => {
    waiting.push(run);
    channel.port2.postMessage(null);
  };
}
