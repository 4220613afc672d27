/**
 * The lines of all ranks in one sequence: by time, then by rank, each rank's own order kept; lines that
 * several ranks write are one entry. Lines that come late into the middle make the sequence be made
 * again from there, in turns, and shown when it has caught up.
 */
import type { Block, Unpacked } from './block';
import { Entries, Fold, MISSING, SET, SKIPPED } from './fold';
import type { RankLog } from './rank_log';
import type { RankSets } from './rank_sets';
import {
  FOLD_COLUMNS,
  PLACEHOLDER_COLUMNS,
  type LogRow,
  type LogRows,
  type Place,
  type RowsListener,
  Watchers,
} from './rows';

/** lines placed between two looks at the clock */
const STRIDE = 128;
/**
 * Of lines with the same time a rank places so many before it is the next one's turn: times are as coarse
 * as the rounds in which logs are read, and equal lines are to come close together.
 */
const TURN = 32;
/** and so many rows ahead the others look for its line, to bring it to the same place */
const AHEAD = 16;
/** of so many lines with the same time: a rank that writes more at once is not read line by line */
const ALIGNED = 64;

/** When more rows than this wait, so many of each rank, the newest, are shown before the others are placed. */
const BEHIND = 16_384;
const NEWEST = 64;

/** How far the lines of one rank have been placed. */
interface Cursor {
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
class Merge {
  constructor(
    readonly entries: Entries,
    readonly fold: Fold,
    readonly cursors: Cursor[],
    private readonly unpacked: Unpacked,
  ) {}

  cursor(log: RankLog): Cursor {
    let cursor = this.cursors.find(other => other.log === log);
    if (!cursor) {
      cursor = cursorAt(log, 0);
      this.cursors.push(cursor);
      this.cursors.sort((a, b) => a.log.rank - b.log.rank);
    }
    return cursor;
  }

  /** Place rows up to the time `limit`; false when there was not time enough for all. */
  run(limit: number, timeUp: () => boolean): boolean {
    for (let placed = 1; ; placed++) {
      let earliest: Cursor | null = null;
      for (const cursor of this.cursors) {
        look(cursor);
        if (cursor.time <= limit && (!earliest || isBefore(cursor, earliest))) {
          earliest = cursor;
        }
      }
      if (!earliest) {
        return true;
      }
      const { time } = earliest;
      do {
        this.placeTogether(earliest);
        look(earliest);
      } while (earliest.time === time && earliest.placed % TURN);
      if (placed % (STRIDE / TURN) === 0 && timeUp()) {
        return false;
      }
    }
  }

  /** Place the next row of a rank; first, what others wrote before the same line at the same time. */
  private placeTogether(cursor: Cursor): void {
    const text = cursor.placed < ALIGNED ? this.textAhead(cursor, 0) : null;
    for (const other of text === null ? [] : this.cursors) {
      if (other !== cursor && other.time === cursor.time) {
        for (let rows = this.rowsBefore(other, text!); rows > 0; rows--) {
          this.place(other);
        }
      }
    }
    this.place(cursor);
  }

  /** How many rows of a rank's time come before a line, 0 when it is not near. */
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

  /** A line of the block and the time where a rank stands; null for a placeholder, undefined for none. */
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
    if (index < 0) {
      this.fold.placeholder(log.rank, block.first, index === -1 && block.skipped ? SKIPPED : MISSING);
      return;
    }
    const text = this.unpacked.lines(block)[index]!;
    this.fold.line(log.rank, block.first + index, text, block.time(index), block.isError(index));
  }
}

function cursorAt(log: RankLog, row: number): Cursor {
  return { log, row, block: 0, time: NaN, placed: 0 };
}

/** Look up the next row of a rank; its time is Infinity when there is none. */
function look(cursor: Cursor): void {
  const time = nextTime(cursor);
  if (time !== cursor.time) {
    cursor.time = time;
    cursor.placed = 0;
  }
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

/** By time, then by turn; of ranks in the same turn the lower one, which comes first here, goes first. */
function isBefore(a: Cursor, b: Cursor): boolean {
  return a.time < b.time || (a.time === b.time && Math.floor(a.placed / TURN) < Math.floor(b.placed / TURN));
}

export class MergedLog implements LogRows {
  /** lines later than this wait */
  limit = Infinity;
  private main: Merge;
  /** the sequence from entry `from` on, being made again; `start`: where each rank's rows began there */
  private mending: { merge: Merge; from: number; start: Map<RankLog, number> } | null = null;
  /** rows that `main` has left out, to show the newest; what is mended has them */
  private leftOut = 0;
  private dropped = 0;
  private readonly watchers = new Watchers();

  constructor(
    private readonly logs: ReadonlyMap<number, RankLog>,
    private readonly sets: RankSets,
    private readonly unpacked: Unpacked,
  ) {
    this.main = this.merge([]);
  }

  /** Take in the lines of one more rank. */
  join(log: RankLog): void {
    this.main.cursor(log);
    this.mending?.merge.cursor(log);
    this.mending?.start.set(log, 0);
    log.onSplice = (at, removed, added) => this.spliced(log, at, removed, added);
  }

  /** Place what has come; false when there was not time enough. */
  advance(timeUp: () => boolean): boolean {
    if (!this.mending && this.waiting > BEHIND) {
      this.leap();
    }
    if (this.mending) {
      if (this.leftOut) {
        this.showNewest();
      }
      if (!this.mending.merge.run(this.limit, timeUp)) {
        return false;
      }
      this.mend();
      return true;
    }
    return this.place(this.limit, timeUp);
  }

  /** Place rows in what is shown; false when there was not time enough. */
  private place(limit: number, timeUp: () => boolean): boolean {
    const { entries, fold } = this.main;
    const before = entries.length;
    fold.touched = before;
    const done = this.main.run(limit, timeUp);
    const at = Math.min(fold.touched, before);
    if (entries.length > before || at < before) {
      this.watchers.tell(this.above + at, before - at, entries.length - at);
    }
    return done;
  }

  /** Rows that have come and are not placed. */
  private get waiting(): number {
    return this.main.cursors.reduce((sum, { log, row }) => sum + Math.max(0, log.blockRows - row), 0);
  }

  /** Leave the rows that wait to be mended in turns, and go on with the newest. */
  private leap(): void {
    const { entries, cursors } = this.main;
    this.mendFrom(entries.length, new Map(cursors.map(({ log, row }) => [log, row])));
    // nothing that is shown meanwhile may join an entry that stays
    this.main = new Merge(entries, new Fold(entries, this.sets), cursors, this.unpacked);
    this.leftOut = 1;
  }

  private showNewest(): void {
    for (const cursor of this.main.cursors) {
      const skipped = cursor.log.blockRows - NEWEST - cursor.row;
      if (skipped > 0) {
        cursor.row += skipped;
        this.leftOut += skipped;
      }
    }
    // not Infinity, the time of a rank that has nothing to place
    this.place(Number.MAX_VALUE, () => false);
  }

  /** Forget entries whose lines have been dropped, at the front. */
  dropFront(): void {
    const { rank, line, length } = this.main.entries;
    let count = 0;
    while (count < length && line.items[count]! < this.logs.get(rank.items[count]!)!.first) {
      count++;
    }
    const above = this.above;
    this.dropped = 0;
    for (const log of this.logs.values()) {
      this.dropped += log.first;
    }
    if (!count && above === this.above) {
      return;
    }
    this.main.entries.dropFront(count);
    this.main.fold.shift(count);
    if (this.main.entries.firstError < 0) {
      this.main.entries.firstError = this.lookForError();
    }
    if (this.mending) {
      this.mending.from = Math.max(0, this.mending.from - count);
    }
    this.watchers.tell(0, above + count, this.above);
  }

  get above(): number {
    return this.dropped ? 1 : 0;
  }

  get count(): number {
    return this.above + this.main.entries.length;
  }

  get lines(): number {
    let lines = 0;
    for (const log of this.logs.values()) {
      lines += log.lines;
    }
    return lines;
  }

  get folded(): number {
    let placed = 0;
    for (const { log, row } of this.main.cursors) {
      placed += Math.min(row, log.blockRows);
    }
    return Math.max(0, placed - this.leftOut - this.main.entries.length);
  }

  get firstError(): number {
    const { firstError } = this.main.entries;
    return firstError < 0 ? -1 : this.above + firstError;
  }

  /** How many ranks wrote the line of a row; 0 for a row that stands for missing lines. */
  ranksAt(at: number): number {
    const set = at < this.above ? MISSING : this.main.entries.set.items[at - this.above]!;
    return set & ~SET ? 0 : this.sets.size(set);
  }

  row(at: number): LogRow {
    const entry = at - this.above;
    if (entry < 0) {
      return { kind: 'dropped', rank: -1, line: 0, ranks: null, time: NaN, text: '', amount: this.dropped };
    }
    const { rank, line, set } = this.main.entries;
    const log = this.logs.get(rank.items[entry]!)!;
    const number = line.items[entry]!;
    const bits = set.items[entry]!;
    const block = log.blockOf(number);
    if (!block || number < block.first) {
      return { kind: 'dropped', rank: log.rank, line: number, ranks: null, time: NaN, text: '', amount: 1 };
    }
    if (bits & ~SET) {
      return log.placeholder(block, bits & SKIPPED || !block.skipped ? -1 : -2);
    }
    const index = number - block.first;
    return {
      kind: 'line',
      rank: log.rank,
      line: number,
      ranks: this.sets.of(bits),
      time: block.time(index),
      text: this.unpacked.lines(block)[index]!,
      amount: 0,
    };
  }

  locate(at: number, place: Place): void {
    const entry = at - this.above;
    place.block = null;
    if (entry < 0 || this.main.entries.set.items[entry]! & ~SET) {
      return;
    }
    const number = this.main.entries.line.items[entry]!;
    const block = this.logs.get(this.main.entries.rank.items[entry]!)!.blockOf(number);
    if (block && number >= block.first) {
      place.block = block;
      place.index = number - block.first;
    }
  }

  columns(from: number, to: number, into: Uint16Array): void {
    this.columnsOf(from, to, null, into);
  }

  /** Columns of the rows at `rows` (null: of all), from position `from` to `to`. */
  columnsOf(from: number, to: number, rows: Uint32Array | null, into: Uint16Array): void {
    const { above } = this;
    const rank = this.main.entries.rank.items;
    const line = this.main.entries.line.items;
    const set = this.main.entries.set.items;
    // a rank's entries follow each other in its blocks: a block is looked up only at the end of another
    const blocks: (Block | undefined)[] = [];
    for (let at = from; at < to; at++) {
      const entry = (rows ? rows[at]! : at) - above;
      if (entry < 0 || set[entry]! & ~SET) {
        into[at - from] = PLACEHOLDER_COLUMNS;
        continue;
      }
      const number = line[entry]!;
      const lead = rank[entry]!;
      let block = blocks[lead];
      if (!block || number >= block.end || number < block.first) {
        block = blocks[lead] = this.logs.get(lead)!.blockOf(number);
      }
      const fold = this.sets.size(set[entry]!) > 1 ? FOLD_COLUMNS : 0;
      into[at - from] = block && number >= block.first ? block.columns(number - block.first) + fold : 0;
    }
  }

  find(rank: number, line: number, from: number): number {
    const { entries } = this.main;
    for (let entry = Math.max(0, from - this.above); entry < entries.length; entry++) {
      if (entries.rank.items[entry] === rank && entries.line.items[entry]! >= line) {
        return this.above + entry;
      }
    }
    return Math.max(0, this.count - 1);
  }

  watch(listener: RowsListener): () => void {
    return this.watchers.add(listener);
  }

  private merge(cursors: Cursor[]): Merge {
    const entries = new Entries();
    return new Merge(entries, new Fold(entries, this.sets), cursors, this.unpacked);
  }

  /** Rows of a rank have changed. What has been placed already is made again from there. */
  private spliced(log: RankLog, at: number, removed: number, added: number): void {
    if (!added && at === 0) {
      this.moveRows(log, removed);
      return;
    }
    const { mending } = this;
    const placed = (mending ? mending.merge : this.main).cursor(log);
    if (at >= placed.row) {
      return;
    }
    if (mending && at >= mending.start.get(log)!) {
      this.mendFrom(mending.from, mending.start);
      return;
    }
    const start = mending?.start ?? new Map(this.main.cursors.map(cursor => [cursor.log, cursor.row]));
    const from = this.backTo(log, at, mending?.from ?? this.main.entries.length, start);
    this.mendFrom(from, start);
  }

  /** The first `count` rows of a rank have gone. */
  private moveRows(log: RankLog, count: number): void {
    const { mending, main } = this;
    for (const cursor of [main.cursor(log), ...(mending ? [mending.merge.cursor(log)] : [])]) {
      cursor.row = Math.max(0, cursor.row - count);
    }
    mending?.start.set(log, Math.max(0, mending.start.get(log)! - count));
  }

  /**
   * Go back from entry `from`, where the rows of ranks stand at `rows`, to right after the last entry of
   * `log` before its row `at`. Changes `rows` to where they stand there.
   */
  private backTo(log: RankLog, at: number, from: number, rows: Map<RankLog, number>): number {
    const { set } = this.main.entries;
    let entry = from;
    while (entry > 0) {
      const members = this.sets.of(set.items[entry - 1]! & SET).ranks;
      if (rows.get(log)! <= at && members.includes(log.rank)) {
        break;
      }
      entry--;
      for (const rank of members) {
        const member = this.logs.get(rank)!;
        rows.set(member, rows.get(member)! - 1);
      }
    }
    return entry;
  }

  private mendFrom(from: number, start: Map<RankLog, number>): void {
    const cursors = this.main.cursors.map(({ log }) => cursorAt(log, Math.max(0, start.get(log)!)));
    this.mending = { merge: this.merge(cursors), from, start };
  }

  /** Show what has been made again. */
  private mend(): void {
    const { merge, from } = this.mending!;
    const { entries } = this.main;
    const removed = entries.length - from;
    entries.replaceFrom(from, merge.entries);
    this.mending = null;
    this.leftOut = 0;
    this.main = new Merge(entries, new Fold(entries, this.sets), merge.cursors, this.unpacked);
    this.watchers.tell(this.above + from, removed, merge.entries.length);
  }

  private lookForError(): number {
    const place: Place = { block: null, index: 0 };
    for (let at = this.above; at < this.count; at++) {
      this.locate(at, place);
      if (place.block?.isError(place.index)) {
        return at - this.above;
      }
    }
    return -1;
  }
}
