/** A log whose tracebacks are folded away: those of a stop, and of ranks that failed because another had. */
import { growing32, lowerBound } from './growing';
import { plain } from './ansi';
import { type LineLocation, type LogRow, type LogRows, Watched } from './rows';

/** rows at the end of a log that are searched */
const SEARCHED = 5000;
const PREFIX = /^\[rank\d+\]:\s?/;
const BEGIN = /^(Traceback \(most recent call last\)|Exception in thread .+):$/;
const BETWEEN = /^(\s*|(During handling of|The above exception was) .+:)$/;

type Place = 'outside' | 'frames' | 'behind';

/** Return the place of a rank's next line. */
function placeOf(before: Place, line: string): Place {
  const text = plain(line).replace(PREFIX, '');
  if (BEGIN.test(text)) {
    return 'frames';
  }
  if (before === 'frames') {
    // the exception itself is the first line without an indent
    return /^(\s|$)/.test(text) ? 'frames' : 'behind';
  }
  return before === 'behind' && BETWEEN.test(text) ? 'behind' : 'outside';
}

export class Untraced extends Watched implements LogRows {
  /** number of rows that are folded away */
  hidden = 0;
  /** rows of the log from `head` on, ascending; those before are all shown */
  private readonly rows = growing32();
  private head = 0;
  private firstTraceback = -1;
  private readonly unwatch: () => void;

  /** `folds`: the ranks whose tracebacks go. */
  constructor(
    private readonly all: LogRows,
    private readonly folds: (rank: number) => boolean,
  ) {
    super();
    this.take();
    this.unwatch = all.watch(at => this.changed(at));
  }

  end(): void {
    this.unwatch();
  }

  get count(): number {
    return this.head + this.rows.length;
  }

  get lines(): number {
    return this.all.lines;
  }

  get folded(): number {
    return this.all.folded + this.hidden;
  }

  get high(): number {
    return this.all.high;
  }

  get firstError(): number {
    const { firstError } = this.all;
    if (firstError < 0) {
      return -1;
    }
    const at = this.shownAt(firstError);
    return at < this.count && this.rowAt(at) === firstError ? at : this.firstTraceback;
  }

  row(at: number): LogRow {
    return this.all.row(this.rowAt(at));
  }

  locate(at: number, place: LineLocation): void {
    this.all.locate(this.rowAt(at), place);
  }

  columns(from: number, to: number, into: Uint16Array): void {
    const whole = Math.min(to, this.head);
    if (from < whole) {
      this.all.columns(from, whole, into);
    }
    for (let at = Math.max(from, whole); at < to; at++) {
      const row = this.rowAt(at);
      this.all.columns(row, row + 1, into.subarray(at - from, at - from + 1));
    }
  }

  find(rank: number, line: number, from: number): number {
    const row = this.all.find(rank, line, this.rowAt(Math.min(from, this.count - 1)));
    return Math.max(0, Math.min(this.count - 1, this.shownAt(row)));
  }

  private rowAt(at: number): number {
    return at < this.head ? Math.max(0, at) : (this.rows.items[at - this.head] ?? 0);
  }

  /** Return the place of a row, or of the next that is shown. */
  private shownAt(row: number): number {
    return row < this.head ? row : this.head + lowerBound(this.rows, row);
  }

  private changed(at: number): void {
    const [before, head] = [this.count, this.head];
    this.take();
    const kept = Math.min(at, head, this.head);
    this.tell(kept, before - kept, this.count - kept);
  }

  private take(): void {
    const places = new Map<number, Place>();
    this.rows.truncate(0);
    this.hidden = 0;
    this.firstTraceback = -1;
    this.head = Math.max(0, this.all.count - SEARCHED);
    for (let at = this.head; at < this.all.count; at++) {
      const row = this.all.row(at);
      const ranks = row.kind === 'line' ? (row.ranks?.ranks ?? []) : [];
      ranks.forEach(rank => places.set(rank, placeOf(places.get(rank) ?? 'outside', row.text)));
      const traced = ranks.length > 0 && ranks.every(rank => places.get(rank) !== 'outside');
      if (traced && ranks.every(this.folds)) {
        this.hidden += 1;
      } else {
        if (traced && this.firstTraceback < 0) {
          this.firstTraceback = this.count;
        }
        this.rows.push(at);
      }
    }
  }
}
