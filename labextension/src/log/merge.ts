/** Puts the lines of all ranks in one order: by time, then by rank, each rank's own order kept. What several ranks
 * write at the same time is brought close together, and folded into one entry. */
import type { Unpacked } from './block';
import { type Entries, MISSING } from './entries';
import { firstWhere } from './growing';
import type { RankLog } from './rank_log';
import type { RankSets } from './rows';

/** rows placed between two looks at the clock */
const STRIDE = 128;
/** Lines that a rank places before the next one's turn, among lines with the same time: times are as coarse as the
 * rounds in which logs are read, and equal lines shall come close together. */
const TURN = 32;
/** and so many rows ahead the others look for its line, to bring it to the same place */
const AHEAD = 16;
/** ranks that look for a line: of thousands that write different ones each would read all others' */
const COMPARED = 32;
/** most lines with the same time that are aligned: a rank that writes more at once is not read line by line */
const ALIGNED = 64;

/** The progress of the merge in the lines of one rank. */
export interface Cursor {
  readonly log: RankLog;
  /** the next row of the rank's blocks */
  row: number;
  /** position of the block of that row, when it was last looked up */
  block: number;
  /** the time of that row, and how many rows with that time have been placed */
  time: number;
  placed: number;
}

/** Takes rows of ranks by time, as far as they have come. */
export class Merge {
  readonly fold: Fold;
  /** rows placed since the last look at the clock */
  private sinceLook = 0;

  constructor(
    readonly entries: Entries,
    sets: RankSets,
    readonly cursors: Cursor[],
    private readonly unpacked: Unpacked,
  ) {
    this.fold = new Fold(entries, sets);
  }

  cursor(log: RankLog): Cursor {
    let cursor = this.cursors.find(other => other.log === log);
    if (!cursor) {
      cursor = cursorAt(log, 0);
      const at = firstWhere(this.cursors.length, each => this.cursors[each]!.log.rank > log.rank);
      this.cursors.splice(at, 0, cursor);
    }
    return cursor;
  }

  /** Place rows up to the time `limit`; false when there was not time enough for all. What stands behind missing
   * lines waits with them while more is to come, and that is so when there is a limit. */
  run(limit: number, timeUp: () => boolean): boolean {
    const waits = limit < Number.MAX_VALUE;
    const queue = new Queue();
    for (const cursor of this.cursors) {
      lookUp(cursor, waits);
      queue.push(cursor);
    }
    this.sinceLook = 0;
    for (let earliest = queue.pop(); earliest && earliest.time <= limit; earliest = queue.pop()) {
      const { time } = earliest;
      do {
        this.placeTogether(earliest, waits);
        lookUp(earliest, waits);
      } while (earliest.time === time && earliest.placed % TURN && this.sinceLook < STRIDE);
      queue.push(earliest);
      if (this.sinceLook >= STRIDE) {
        this.sinceLook = 0;
        if (timeUp()) {
          return false;
        }
      }
    }
    return true;
  }

  /** Rows that have come and are not placed. */
  get waiting(): number {
    return this.cursors.reduce((sum, { log, row }) => sum + Math.max(0, log.blockRows - row), 0);
  }

  /** True when the next row of a rank stands for missing lines. */
  get meetsGap(): boolean {
    return this.cursors.some(cursor => {
      lookUp(cursor, false);
      return isGap(cursor);
    });
  }

  /** Place the next row of a rank; first, unless its line is there already, what others wrote before the same line
   * at the same time. */
  private placeTogether(cursor: Cursor, waits: boolean): void {
    const { log, time, placed } = cursor;
    const text = placed < ALIGNED ? this.textAhead(cursor, 0) : null;
    if (typeof text === 'string' && this.fold.candidate(log.rank, text, time) < 0) {
      let compared = 0;
      for (const other of this.cursors) {
        if (other !== cursor && other.time === time && compared++ < COMPARED) {
          const rows = this.rowsBefore(other, text);
          for (let row = 0; row < rows; row++) {
            this.place(other);
          }
          if (rows) {
            lookUp(other, waits);
          }
        }
      }
    }
    this.place(cursor);
  }

  /** Return the number of rows of the same time before a line; 0 when it is not near. */
  private rowsBefore(cursor: Cursor, text: string): number {
    for (let ahead = 0; ahead < AHEAD; ahead++) {
      const line = this.textAhead(cursor, ahead);
      if (line === text) {
        return ahead;
      }
      if (line === undefined) {
        return 0;
      }
    }
    return 0;
  }

  /** Return a line of the block and the time where a rank stands; null for a placeholder, undefined for none. */
  private textAhead(cursor: Cursor, ahead: number): string | null | undefined {
    const block = cursor.log.blocks[cursor.block];
    if (!block) {
      return undefined;
    }
    const index = cursor.row + ahead - block.rowStart - block.placeholders;
    if (index < 0) {
      return null;
    }
    const near = index < block.count && block.time(index) === cursor.time;
    return near ? this.unpacked.lines(block)[index] : undefined;
  }

  private place(cursor: Cursor): void {
    const { log } = cursor;
    const block = log.blocks[cursor.block]!;
    const index = cursor.row - block.rowStart - block.placeholders;
    cursor.row++;
    cursor.placed++;
    this.sinceLook++;
    if (index < 0) {
      this.fold.placeholder(log.rank, block.first);
      return;
    }
    const text = this.unpacked.lines(block)[index]!;
    this.fold.line(log.rank, block.lineAt(index), text, block.time(index), block.isError(index));
  }
}

export function cursorAt(log: RankLog, row: number): Cursor {
  return { log, row, block: 0, time: NaN, placed: 0 };
}

/** Look up the next row of a rank; its time is Infinity when there is none, or when its lines are to come. */
function lookUp(cursor: Cursor, waits: boolean): void {
  const next = nextTime(cursor);
  const time = waits && isGap(cursor) ? Infinity : next;
  if (time !== cursor.time) {
    cursor.time = time;
    cursor.placed = 0;
  }
}

function isGap(cursor: Cursor): boolean {
  const block = cursor.log.blocks[cursor.block];
  return block !== undefined && block.missing > 0 && cursor.row === block.rowStart;
}

function nextTime(cursor: Cursor): number {
  const { blocks } = cursor.log;
  let block = blocks[cursor.block];
  if (!block || cursor.row < block.rowStart || cursor.row >= block.rowStart + block.rows) {
    cursor.block = cursor.log.indexOfRow(cursor.row);
    block = blocks[cursor.block];
    if (!block || cursor.row >= block.rowStart + block.rows) {
      return Infinity;
    }
  }
  return block.time(Math.max(0, cursor.row - block.rowStart - block.placeholders));
}

/** A cursor with the time and the turn that it had when it was put into the queue. */
interface Entry {
  readonly cursor: Cursor;
  readonly time: number;
  readonly turn: number;
}

function entryOf(cursor: Cursor): Entry {
  return { cursor, time: cursor.time, turn: Math.floor(cursor.placed / TURN) };
}

/** Return true when `a` is placed first: by time, then by turn; in the same turn the lower rank. */
function isBefore(a: Entry, b: Entry): boolean {
  return (
    a.time < b.time ||
    (a.time === b.time && (a.turn < b.turn || (a.turn === b.turn && a.cursor.log.rank < b.cursor.log.rank)))
  );
}

/** A heap of cursors. One may move on while it waits: its entry is mended when it comes first. */
class Queue {
  private readonly heap: Entry[] = [];

  push(cursor: Cursor): void {
    const { heap } = this;
    const entry = entryOf(cursor);
    let at = heap.push(entry) - 1;
    for (let above = (at - 1) >> 1; at > 0 && isBefore(entry, heap[above]!); above = (at - 1) >> 1) {
      heap[at] = heap[above]!;
      at = above;
    }
    heap[at] = entry;
  }

  /** Remove the cursor whose row is placed first, and return it; undefined for none. */
  pop(): Cursor | undefined {
    const { heap } = this;
    for (let first = heap[0]; first; first = heap[0]) {
      const now = entryOf(first.cursor);
      if (isBefore(first, now)) {
        this.sink(now);
        continue;
      }
      const last = heap.pop()!;
      if (heap.length) {
        this.sink(last);
      }
      return first.cursor;
    }
    return undefined;
  }

  /** Put an entry in the place of the first. */
  private sink(entry: Entry): void {
    const { heap } = this;
    let at = 0;
    for (let below = 1; below < heap.length; below = 2 * at + 1) {
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) {
        below += 1;
      }
      if (!isBefore(heap[below]!, entry)) {
        break;
      }
      heap[at] = heap[below]!;
      at = below;
    }
    heap[at] = entry;
  }
}

/** entries and seconds back in which a line looks for the same line of another rank */
const WINDOW = 512;
const SECONDS = 2;

/** Adds lines to entries. A line joins the first recent entry with its text that does not hold its rank yet and
 * stands after the rank's last line; so each rank's lines can be read back in their order. */
class Fold {
  /** the earliest entry that a line has joined since this was last reset */
  touched = Infinity;
  private readonly last = new Map<number, number>();
  /** the recent entries of a text, ascending */
  private readonly byText = new Map<string, number[]>();
  private texts: string[] = [];
  private times: number[] = [];
  /** the entry of texts[0] */
  private from = 0;

  constructor(
    private readonly entries: Entries,
    private readonly sets: RankSets,
  ) {}

  placeholder(rank: number, line: number): void {
    // near no time: nothing joins it
    this.note('', NaN, this.entries.push(rank, line, (rank | MISSING) >>> 0, false), rank);
  }

  line(rank: number, line: number, text: string, time: number, error: boolean): void {
    const joined = this.candidate(rank, text, time);
    if (joined >= 0) {
      const set = this.entries.set.items;
      set[joined] = this.sets.plus(set[joined]!, rank);
      this.last.set(rank, joined);
      this.touched = Math.min(this.touched, joined);
      return;
    }
    this.note(text, time, this.entries.push(rank, line, rank, error), rank);
  }

  /** Forget the first `count` entries. */
  shift(count: number): void {
    this.last.forEach((entry, rank) => this.last.set(rank, entry - count));
    this.byText.clear();
    this.texts = [];
    this.times = [];
    this.touched = Infinity;
  }

  /** Return the entry that a line joins; -1 for none. */
  candidate(rank: number, text: string, time: number): number {
    const entries = this.byText.get(text);
    if (!entries) {
      return -1;
    }
    // entries after the rank's last one cannot hold it
    const last = this.last.get(rank) ?? -1;
    const first = firstWhere(entries.length, at => entries[at]! > last);
    return entries.slice(first).find(entry => this.isNear(entry, time)) ?? -1;
  }

  private isNear(entry: number, time: number): boolean {
    return Math.abs(time - this.times[entry - this.from]!) <= SECONDS;
  }

  private note(text: string, time: number, entry: number, rank: number): void {
    this.last.set(rank, entry);
    if (!this.texts.length) {
      this.from = entry;
    }
    this.texts.push(text);
    this.times.push(time);
    const entries = this.byText.get(text);
    if (entries) {
      entries.push(entry);
    } else {
      this.byText.set(text, [entry]);
    }
    if (this.texts.length >= 2 * WINDOW) {
      this.forget(this.texts.length - WINDOW);
    }
  }

  private forget(count: number): void {
    this.times.splice(0, count);
    for (const text of this.texts.splice(0, count)) {
      const entries = this.byText.get(text) ?? [];
      entries.shift();
      if (!entries.length) {
        this.byText.delete(text);
      }
    }
    this.from += count;
  }
}
