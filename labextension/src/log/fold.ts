/** Entries of the merged log, and the folding of lines that several ranks write. */
import { growing16, growing32 } from './growing';
import type { RankSets } from './rank_sets';

/** how far back, in entries and in seconds, a line looks for the same line of another rank */
const WINDOW = 512;
const SECONDS = 2;

export const MISSING = 0x80000000;
export const SKIPPED = 0x40000000;
export const SET = 0x3fffffff;

/** Entries, as columns: the rank and the line whose text is shown, and the set of ranks that wrote it. */
export class Entries {
  readonly rank = growing16();
  readonly line = growing32();
  /** number of the set; the two top bits say that the entry stands for missing lines */
  readonly set = growing32();
  firstError = -1;

  get length(): number {
    return this.line.length;
  }

  push(rank: number, line: number, set: number, error: boolean): number {
    if (error && this.firstError < 0) {
      this.firstError = this.length;
    }
    this.rank.push(rank);
    this.line.push(line);
    this.set.push(set);
    return this.length - 1;
  }

  /** Put `other` in the place of the entries from `at` on. */
  replaceFrom(at: number, other: Entries): void {
    const removed = this.length - at;
    this.rank.splice(at, removed, other.rank.items, other.length);
    this.line.splice(at, removed, other.line.items, other.length);
    this.set.splice(at, removed, other.set.items, other.length);
    if (this.firstError < 0 || this.firstError >= at) {
      this.firstError = other.firstError < 0 ? -1 : at + other.firstError;
    }
  }

  /** The lines of a rank have numbers that differ by `by`. */
  renumber(rank: number, by: number): void {
    for (let at = 0; at < this.length; at++) {
      if (this.rank.items[at] === rank) {
        this.line.items[at]! += by;
      }
    }
  }

  dropFront(count: number): void {
    this.rank.splice(0, count, []);
    this.line.splice(0, count, []);
    this.set.splice(0, count, []);
    this.firstError = Math.max(-1, this.firstError - count);
  }
}

/**
 * Adds lines to entries. A line joins the first recent entry with its text that does not hold its rank yet
 * and stands after the rank's last line; so each rank's lines can be read back in their order.
 */
export class Fold {
  /** the earliest entry that a line has joined since this was last reset */
  touched = Infinity;
  private readonly last = new Map<number, number>();
  /** the entries of a text: a number when there is one, as for most */
  private readonly byText = new Map<string, number | number[]>();
  private texts: string[] = [];
  private times: number[] = [];
  /** the entry of texts[0] */
  private from = 0;

  constructor(
    private readonly entries: Entries,
    private readonly sets: RankSets,
  ) {}

  placeholder(rank: number, line: number, kind: number): void {
    this.note('', NaN, this.entries.push(rank, line, (this.sets.single(rank).id | kind) >>> 0, false), rank);
  }

  line(rank: number, line: number, text: string, time: number, error: boolean): void {
    const joined = this.candidate(rank, text, time);
    if (joined >= 0) {
      const set = this.entries.set.items;
      set[joined] = this.sets.plus(this.sets.of(set[joined]!), rank).id;
      this.last.set(rank, joined);
      this.touched = Math.min(this.touched, joined);
      return;
    }
    this.note(text, time, this.entries.push(rank, line, this.sets.single(rank).id, error), rank);
  }

  /** The first `count` entries have gone. */
  shift(count: number): void {
    this.last.forEach((entry, rank) => this.last.set(rank, entry - count));
    this.byText.clear();
    this.texts = [];
    this.times = [];
    this.touched = Infinity;
  }

  private candidate(rank: number, text: string, time: number): number {
    const entries = this.byText.get(text);
    if (entries === undefined) {
      return -1;
    }
    // entries after the rank's last one cannot hold it
    const last = this.last.get(rank) ?? -1;
    if (typeof entries === 'number') {
      return entries > last && this.isNear(entries, time) ? entries : -1;
    }
    for (let at = firstAfter(entries, last); at < entries.length; at++) {
      if (this.isNear(entries[at]!, time)) {
        return entries[at]!;
      }
    }
    return -1;
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
    // placeholders (no time) are nothing to join
    if (!Number.isNaN(time)) {
      const entries = this.byText.get(text);
      if (entries === undefined) {
        this.byText.set(text, entry);
      } else if (typeof entries === 'number') {
        this.byText.set(text, [entries, entry]);
      } else {
        entries.push(entry);
      }
    }
    if (this.texts.length >= 2 * WINDOW) {
      this.forget(this.texts.length - WINDOW);
    }
  }

  private forget(count: number): void {
    const times = this.times.splice(0, count);
    this.texts.splice(0, count).forEach((text, at) => {
      if (Number.isNaN(times[at])) {
        return;
      }
      const entries = this.byText.get(text);
      if (typeof entries === 'object' && entries.length > 1) {
        entries.shift();
      } else {
        this.byText.delete(text);
      }
    });
    this.from += count;
  }
}

/** Position of the first of ascending `entries` that is after `entry`. */
function firstAfter(entries: readonly number[], entry: number): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries[middle]! <= entry) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
