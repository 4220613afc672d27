/** The folding of lines that several ranks write into entries of the merged log. */
import { type Entries, MISSING } from './entries';
import { firstWhere } from './growing';
import type { RankSets } from './rows';

/** how far back, in entries and in seconds, a line looks for the same line of another rank */
const WINDOW = 512;
const SECONDS = 2;

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

  placeholder(rank: number, line: number): void {
    this.note(
      '',
      NaN,
      this.entries.push(rank, line, (this.sets.single(rank).id | MISSING) >>> 0, false),
      rank,
    );
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
