/** All logs of a run that this page has: fed with deltas, read by panes. */
import type { LogDelta } from '../protocol/log';
import { type Block, Unpacked } from './block';
import { Emitter } from './emitter';
import { MergedLog } from './merged_log';
import { Outputs } from './outputs';
import { RankLog } from './rank_log';
import { RankSets } from './rows';
import { browserTurns, Slices, type Turns } from './slices';

/** blocks that may wait to be packed while lines come fast; 8 MB */
const UNPACKED = 128;

/** milliseconds */
const BETWEEN_DRAWINGS = 80;

interface RunLogOptions {
  turns?: Turns;
  /** bytes of blocks that are kept */
  bound?: number;
}

/** Tells when there is something new. */
export class RunLog extends Emitter {
  readonly all: MergedLog;
  readonly outputs = new Outputs();
  /** true when lines that have come are being put in their places */
  placing = false;
  /** long work over this log: packing, merging, searching */
  readonly slices: Slices;
  private readonly logs = new Map<number, RankLog>();
  private readonly sets = new RankSets();
  private readonly unpacked = new Unpacked();
  private readonly inbox = new Inbox(delta => this.rank(delta.rank).receive(delta));
  private readonly closed: Block[] = [];
  private readonly bound: number;
  private readonly turns: Turns;
  private packed = 0;
  private notified = -Infinity;

  constructor({ turns = browserTurns(), bound = 64 * 1024 * 1024 }: RunLogOptions = {}) {
    super();
    this.turns = turns;
    this.slices = new Slices(turns);
    this.bound = bound;
    this.all = new MergedLog(this.logs, this.sets, this.unpacked);
  }

  /** Take what has come. Lines later than `completeUntil` are kept out of the merged log until their turn. */
  receive(deltas: readonly LogDelta[], completeUntil: number | null): void {
    this.inbox.receive(deltas, completeUntil);
    this.slices.now(this.merge);
  }

  /** Return the log of a rank; empty while none of its lines has come. */
  rank(rank: number): RankLog {
    let log = this.logs.get(rank);
    if (!log) {
      log = new RankLog(rank, this.unpacked, this.sets, block => this.closes(block));
      this.logs.set(rank, log);
      this.all.join(log);
      // reading all ranks side by side needs a block of each
      this.unpacked.capacity = Math.max(16, this.logs.size + 8);
    }
    return log;
  }

  /** The ranks that have written, in order. */
  get ranks(): readonly number[] {
    return [...this.logs.keys()].sort((a, b) => a - b);
  }

  errors(rank: number): number {
    return this.logs.get(rank)?.errors ?? 0;
  }

  get allErrors(): number {
    return [...this.logs.values()].reduce((sum, { errors }) => sum + errors, 0);
  }

  /** True when lines are missing that are not on their way. */
  get incomplete(): boolean {
    return this.inbox.complete && [...this.logs.values()].some(log => log.incomplete);
  }

  /** True when every written line has come and stands in its place. */
  get settled(): boolean {
    return this.inbox.complete && this.all.settled;
  }

  /** bytes of the packed blocks */
  get packedBytes(): number {
    return this.packed;
  }

  private readonly merge = (timeUp: () => boolean): boolean => {
    const read = this.inbox.readOn(timeUp);
    this.all.limit = this.inbox.limit;
    const done = this.all.advance(timeUp) && read;
    this.placing = !done;
    const now = this.turns.now();
    // what is merged in many turns is not drawn after each of them
    if (done || now - this.notified >= BETWEEN_DRAWINGS) {
      this.notified = now;
      this.tell();
    }
    return done;
  };

  private readonly pack = (timeUp: () => boolean): boolean => {
    while (this.closed.length) {
      const block = this.closed.shift()!;
      block.pack();
      this.packed += block.bytes;
      if (timeUp()) {
        break;
      }
    }
    this.dropOldest();
    return this.closed.length === 0;
  };

  private closes(block: Block): void {
    this.closed.push(block);
    if (this.closed.length > UNPACKED) {
      this.slices.add(this.pack);
    } else {
      // what is new is to be on the screen first
      this.turns.whenQuiet(() => this.slices.add(this.pack));
    }
  }

  private dropOldest(): void {
    let dropped = false;
    while (this.packed > this.bound) {
      const oldest = [...this.logs.values()]
        .filter(log => log.blocks[0]?.bytes && log.blocks.length > 1)
        .sort((a, b) => a.blocks[0]!.time(0) - b.blocks[0]!.time(0))[0];
      if (!oldest) {
        break;
      }
      this.packed -= oldest.blocks[0]!.bytes;
      oldest.drop();
      dropped = true;
    }
    if (dropped) {
      this.all.dropFront();
      this.tell();
    }
  }
}

type Take = (delta: LogDelta) => void;

class Inbox {
  private waiting: LogDelta[] = [];
  /** by what the last message says; MAX_VALUE: all there is has been sent */
  private completeUntil = Number.MAX_VALUE;

  constructor(private readonly take: Take) {}

  receive(deltas: readonly LogDelta[], completeUntil: number | null): void {
    // the times of lines are kept in single precision
    this.completeUntil = completeUntil === null ? Number.MAX_VALUE : Math.fround(completeUntil);
    // the newest lines go before those of long messages that are still being read
    const [first, ...rest] = deltas;
    if (first) {
      this.take(first);
    }
    this.waiting.push(...rest);
  }

  /** Read waiting messages; return true when all are read. */
  readOn(timeUp: () => boolean): boolean {
    let read = 0;
    while (read < this.waiting.length && !timeUp()) {
      this.take(this.waiting[read++]!);
    }
    this.waiting = this.waiting.slice(read);
    return this.waiting.length === 0;
  }

  /** The time up to which lines are complete: lines that wait here count as not received, and lines of the same time
   * wait with them, since equal lines shall come together. */
  get limit(): number {
    return this.waiting.reduce(
      (limit, { times }) => Math.min(limit, times.length ? justBefore(Math.fround(times[0]![1])) : limit),
      this.completeUntil,
    );
  }

  /** True when every written line has come and been read. */
  get complete(): boolean {
    return this.completeUntil === Number.MAX_VALUE && this.waiting.length === 0;
  }
}

/** Return a time before `time` and after any earlier one in single precision. */
function justBefore(time: number): number {
  return time - 1e-9 * Math.max(1, Math.abs(time));
}
