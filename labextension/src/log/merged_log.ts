/** The lines of all ranks in one sequence: by time, then by rank, each rank's own order kept; lines that several
 * ranks write are one entry. Lines that come late into the middle make the sequence be made again from there, in
 * turns, and shown when it has caught up. */
import type { Unpacked } from './block';
import { Entries, EntryRows, SET } from './entries';
import { type Cursor, cursorAt, Merge } from './merge';
import type { RankLog } from './rank_log';
import type { LogRows, RankSets } from './rows';

/** The number of waiting rows above which the newest, `NEWEST` of each rank, are shown before the others are placed. */
const BEHIND = 16_384;
const NEWEST = 64;

export class MergedLog extends EntryRows implements LogRows {
  /** lines later than this wait */
  limit = Infinity;
  private main: Merge;
  /** the sequence from entry `from` on, being made again; `start`: where each rank's rows began there */
  private mending: { merge: Merge; from: number; start: Map<RankLog, number> } | null = null;
  /** rows that `main` has left out, to show the newest; what is mended has them */
  private leftOut = 0;

  constructor(logs: ReadonlyMap<number, RankLog>, sets: RankSets, unpacked: Unpacked) {
    super(logs, sets, unpacked);
    this.main = this.merge(this.entries, []);
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
    if (!this.mending && this.main.waiting > BEHIND) {
      this.leap();
    }
    if (!this.mending) {
      if (!this.place(this.limit, timeUp)) {
        return false;
      }
      if (this.limit === Number.MAX_VALUE || !this.main.meetsGap) {
        return true;
      }
      this.leap();
    }
    if (this.leftOut) {
      this.showNewest();
    }
    if (!this.mending!.merge.run(this.limit, timeUp)) {
      return false;
    }
    // while the lines of a gap are on their way there is nothing better to show
    if (!this.leftOut || !this.mending!.merge.waiting) {
      this.mend();
    }
    return true;
  }

  /** True when every received row stands in its place. */
  get settled(): boolean {
    return !this.mending && this.main.waiting === 0;
  }

  /** Place rows in what is shown; false when there was not time enough. */
  private place(limit: number, timeUp: () => boolean): boolean {
    const { entries } = this;
    const { fold } = this.main;
    const before = entries.length;
    fold.touched = before;
    const done = this.main.run(limit, timeUp);
    const at = Math.min(fold.touched, before);
    if (entries.length > before || at < before) {
      this.tell(this.above + at, before - at, entries.length - at);
    }
    return done;
  }

  /** Leave the rows that wait to be mended in turns, and go on with the newest. */
  private leap(): void {
    const { entries } = this;
    const { cursors } = this.main;
    this.mendFrom(entries.length, new Map(cursors.map(({ log, row }) => [log, row])));
    // nothing that is shown meanwhile may join an entry that stays
    this.main = this.merge(entries, cursors);
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
    const { rank, line, length } = this.entries;
    let count = 0;
    while (count < length && line.items[count]! < this.logs.get(rank.items[count]!)!.first) {
      count++;
    }
    const above = this.above;
    this.dropped = [...this.logs.values()].reduce((sum, log) => sum + log.first, 0);
    if (!count && above === this.above) {
      return;
    }
    this.dropSets(this.entries, 0, count);
    this.entries.dropFront(count);
    this.main.fold.shift(count);
    if (this.entries.firstError < 0) {
      this.entries.firstError = this.lookForError();
    }
    if (this.mending) {
      this.mending.from = Math.max(0, this.mending.from - count);
    }
    this.tell(0, above + count, this.above);
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
    return Math.max(0, placed - this.leftOut - this.entries.length);
  }

  private merge(entries: Entries, cursors: Cursor[]): Merge {
    return new Merge(entries, this.sets, cursors, this.unpacked);
  }

  /** Take changed rows of a rank: rows placed from there on are placed again. */
  private spliced(log: RankLog, at: number, removed: number, added: number): void {
    if (!added && at === 0) {
      this.moveRows(log, removed);
      return;
    }
    const { mending, main } = this;
    const placed = (mending ? mending.merge : main).cursor(log);
    if (mending) {
      this.shiftShown(log, at, removed, added);
    }
    if (at >= placed.row) {
      return;
    }
    if (mending && at >= mending.start.get(log)!) {
      this.mendFrom(mending.from, mending.start);
      return;
    }
    const start = mending?.start ?? new Map(this.main.cursors.map(cursor => [cursor.log, cursor.row]));
    const from = this.backTo(log, at, mending?.from ?? this.entries.length, start);
    this.mendFrom(from, start);
  }

  /** Keep showing the same row when rows that were left out have come before it. */
  private shiftShown(log: RankLog, at: number, removed: number, added: number): void {
    const cursor = this.main.cursor(log);
    if (at < cursor.row) {
      const shift = Math.max(0, Math.min(added - removed, log.blockRows - cursor.row));
      cursor.row += shift;
      this.leftOut += shift;
    }
  }

  /** Forget the first `count` rows of a rank. */
  private moveRows(log: RankLog, count: number): void {
    const { mending, main } = this;
    for (const cursor of [main.cursor(log), ...(mending ? [mending.merge.cursor(log)] : [])]) {
      cursor.row = Math.max(0, cursor.row - count);
    }
    mending?.start.set(log, Math.max(0, mending.start.get(log)! - count));
  }

  /** Go back from entry `from`, where the rows of ranks stand at `rows`, to right after the last entry of `log`
   * before its row `at`. Changes `rows` to where they stand there. */
  private backTo(log: RankLog, at: number, from: number, rows: Map<RankLog, number>): number {
    const { set } = this.entries;
    let entry = from;
    while (entry > 0) {
      const members = this.sets.ranks(set.items[entry - 1]! & SET);
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

  private dropSets({ set }: Entries, from: number, to: number): void {
    for (let entry = from; entry < to; entry++) {
      this.sets.drop(set.items[entry]! & SET);
    }
  }

  private mendFrom(from: number, start: Map<RankLog, number>): void {
    if (this.mending) {
      const { entries } = this.mending.merge;
      this.dropSets(entries, 0, entries.length);
    }
    const cursors = this.main.cursors.map(({ log }) => cursorAt(log, Math.max(0, start.get(log)!)));
    this.mending = { merge: this.merge(new Entries(), cursors), from, start };
  }

  /** Show what has been made again. */
  private mend(): void {
    const { merge, from } = this.mending!;
    const { entries } = this;
    const removed = entries.length - from;
    this.dropSets(entries, from, entries.length);
    entries.replaceFrom(from, merge.entries);
    this.mending = null;
    this.leftOut = 0;
    this.main = this.merge(entries, merge.cursors);
    this.tell(this.above + from, removed, merge.entries.length);
  }
}
