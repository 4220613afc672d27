/** The received data of a run, and its times. Any number of views draw one model; it draws nothing itself. */
import { keyOf } from './charts';
import { Emitter } from '../log/emitter';
import { RunLog } from '../log/run_log';
import type { Answer, Message, RunView } from '../protocol/run';
import type { Chart } from '../protocol/charts';

const FIRST_PULL = 5;
const LONGEST_PULL = 160;

/** The clock of the model: `now` in seconds, and `frame`, which calls back before the next frame. */
interface Pace {
  now(): number;
  frame(draw: () => void): void;
}

/** Return the page's seconds, by which is told when something came. */
export function pageNow(): number {
  return performance.now() / 1000;
}

const PAGE: Pace = {
  now: pageNow,
  // the log draws itself in the frame; both in one task would take as long as both
  frame: draw => requestAnimationFrame(() => void setTimeout(draw)),
};

/** Tells when something but lines has come: those the log draws by itself. */
export class RunModel extends Emitter {
  view: RunView | null = null;
  /** arrival of `view`, and of the last message, in the page's seconds */
  viewAt = 0;
  heardAt: number;
  cell: string | null = null;
  charts: ReadonlyMap<string, Chart> = new Map();
  /** number of metrics without a chart */
  leftOut = 0;
  readonly log = new RunLog();
  /** counts what came, except for lines; equal means that nothing else has changed */
  version = 0;

  private asking: readonly { kind: Answer['kind']; answered: (answer: never) => void }[] = [];
  private notes: readonly string[] = [];
  private errors = 0;
  private scheduled = false;
  private pullAt = -Infinity;
  private pullPeriod = FIRST_PULL;

  constructor(private readonly pace: Pace = PAGE) {
    super();
    this.heardAt = pace.now();
    this.log.subscribe(() => {
      const { allErrors } = this.log;
      if (allErrors !== this.errors) {
        this.errors = allErrors;
        this.changed();
      }
    });
  }

  receive(message: Message): void {
    this.heardAt = this.pace.now();
    if (message.kind !== 'update') {
      this.asking
        .filter(({ kind }) => kind === message.kind)
        .forEach(({ answered }) => answered(message as never));
      this.asking = this.asking.filter(({ kind }) => kind !== message.kind);
      return;
    }
    const { view, charts, leftOut, cell } = message;
    if (view) {
      this.see(view);
    }
    if (charts.length) {
      this.charts = new Map([...this.charts, ...charts.map(each => [keyOf(each), each] as const)]);
    }
    this.leftOut = leftOut ?? this.leftOut;
    this.cell = cell ?? this.cell;
    if (view || charts.length || leftOut !== null || cell !== null) {
      this.changed();
    }
    message.media.forEach(({ name, data }) => this.log.outputs.put(name, data));
    this.log.receive(message.deltas, message.completeUntil);
  }

  /** Take the view of a run from the server, where the kernel does not send it. */
  receiveView(view: RunView, cell: string | null = null): void {
    const nothing = { deltas: [], completeUntil: null, charts: [], leftOut: null, media: [] };
    this.receive({ kind: 'update', view, cell, ...nothing });
  }

  /** Keep the notes on the end of a run, which the kernel has in its views and the server apart. */
  note(notes: readonly string[]): void {
    this.notes = notes;
    if (this.view) {
      this.view = { ...this.view, notes: [...notes] };
    }
    this.changed();
  }

  /** Return the kernel's next answer of a kind. It may never come. */
  next<Kind extends Answer['kind']>(kind: Kind): Promise<Extract<Answer, { kind: Kind }>> {
    return new Promise(answered => (this.asking = [...this.asking, { kind, answered }]));
  }

  /** Return true when it is time to request missing lines. A busy kernel answers all requests at once when it is free,
   * so they become rarer. */
  wantsPull(): boolean {
    if (!this.log.incomplete) {
      this.pullPeriod = FIRST_PULL;
      return false;
    }
    const now = this.pace.now();
    if (now - this.pullAt < this.pullPeriod) {
      return false;
    }
    this.pullPeriod = this.pullAt === -Infinity ? FIRST_PULL : Math.min(2 * this.pullPeriod, LONGEST_PULL);
    this.pullAt = now;
    return true;
  }

  private see(view: RunView): void {
    this.viewAt = this.heardAt;
    const notes = view.notes.length ? view.notes : [...this.notes];
    this.view = { ...view, notes };
  }

  private changed(): void {
    this.version += 1;
    if (!this.scheduled) {
      this.scheduled = true;
      this.pace.frame(() => {
        this.scheduled = false;
        this.tell();
      });
    }
  }
}
