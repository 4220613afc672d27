/** A log of which the tracebacks that tell nothing new are left out. */
import { plain } from './ansi';
import { growing32, lowerBound } from './growing';
import { type LineLocation, type LogRow, type LogRows, Watched } from './rows';

/** rows at the end of a log that are searched for tracebacks */
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

/** A log whose tracebacks are folded away: those of a stop, and of ranks that failed because another had. */
export class Untraced extends Watched implements LogRows {
  /** number of rows that are folded away */
  hidden = 0;
  /** rows of the log from `head` on, ascending; those before are all shown */
  private readonly rows = growing32();
  private head = 0;
  /** the row where an error is, when the log's first is left out; -1 for none */
  private otherError = -1;
  private readonly unwatch: () => void;

  /** `folds`: the ranks whose tracebacks go. */
  constructor(
    private readonly all: LogRows,
    private readonly folds: (rank: number) => boolean,
  ) {
    super();
    this.unwatch = all.subscribe(at => {
      const before = this.count;
      const kept = this.take(at);
      this.tell(kept, before - kept, this.count - kept);
    });
    this.take(0);
  }

  end(): void {
    this.unwatch();
  }

  get count(): number {
    return this.head + this.rows.length;
  }

  get high(): number {
    return this.all.high;
  }

  get firstError(): number {
    const { firstError } = this.all;
    const at = this.shownAt(Math.max(0, firstError));
    return firstError >= 0 && at < this.count && this.rowAt(at) === firstError ? at : this.otherError;
  }

  row(at: number): LogRow {
    return this.all.row(this.rowAt(at));
  }

  locate(at: number): LineLocation | null {
    return this.all.locate(this.rowAt(at));
  }

  columns(from: number, to: number, into: Uint16Array): void {
    for (let at = from, end = from; at < to; at = end) {
      const row = this.rowAt(at);
      do {
        end++;
      } while (end < to && this.rowAt(end) - row === end - at);
      this.all.columns(row, row + end - at, into.subarray(at - from));
    }
  }

  find(rank: number, line: number, from: number): number {
    const row = this.all.find(rank, line, this.rowAt(Math.min(from, this.count - 1)));
    return Math.max(0, Math.min(this.count - 1, this.shownAt(row)));
  }

  get lines(): number {
    return this.all.lines;
  }

  get folded(): number {
    return this.all.folded + this.hidden;
  }

  /** Choose rows again, as the log has changed from a row on; return the number of rows that stay as they are. */
  private take(changed: number): number {
    const { all, rows, head } = this;
    const places = new Map<number, Place>();
    rows.truncate(0);
    this.hidden = 0;
    this.otherError = -1;
    this.head = Math.max(0, all.count - SEARCHED);
    for (let at = this.head; at < all.count; at++) {
      const row = all.row(at);
      const ranks = row.kind === 'line' ? (row.ranks?.ranks ?? []) : [];
      ranks.forEach(rank => places.set(rank, placeOf(places.get(rank) ?? 'outside', row.text)));
      const traced = ranks.length > 0 && ranks.every(rank => places.get(rank) !== 'outside');
      if (traced && ranks.every(this.folds)) {
        this.hidden += 1;
      } else {
        if (traced && this.otherError < 0) {
          this.otherError = this.count;
        }
        rows.push(at);
      }
    }
    return Math.min(changed, head, this.head);
  }

  private rowAt(at: number): number {
    return at < this.head ? Math.max(0, at) : (this.rows.items[at - this.head] ?? 0);
  }

  /** Return the place of a row, or of the next that is shown. */
  private shownAt(row: number): number {
    return row < this.head ? row : this.head + lowerBound(this.rows, row);
  }
}
