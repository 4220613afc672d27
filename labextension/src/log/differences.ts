/** The entries of the merged log that not all ranks share. */
import { growing32, lowerBound } from './growing';
import type { MergedLog } from './merged_log';
import { type LogRow, type LogRows, type Place, Watched } from './rows';

export class Differences extends Watched implements LogRows {
  /** rows of the merged log, ascending */
  private readonly rows = growing32();
  private readonly unwatch: () => void;

  constructor(
    private readonly all: MergedLog,
    private readonly worldSize: number,
  ) {
    super();
    this.take(0);
    this.unwatch = all.watch(at => this.changed(at));
  }

  end(): void {
    this.unwatch();
  }

  get count(): number {
    return this.rows.length;
  }

  get lines(): number {
    return this.rows.length;
  }

  readonly folded = 0;

  get firstError(): number {
    const at = lowerBound(this.rows, Math.max(0, this.all.firstError));
    return this.all.firstError >= 0 && this.rows.items[at] === this.all.firstError && at < this.count
      ? at
      : -1;
  }

  row(at: number): LogRow {
    return this.all.row(this.rows.items[at]!);
  }

  locate(at: number, place: Place): void {
    this.all.locate(this.rows.items[at]!, place);
  }

  columns(from: number, to: number, into: Uint16Array): void {
    this.all.columns(from, to, into, this.rows.items);
  }

  find(rank: number, line: number, from: number): number {
    const row = this.all.find(rank, line, this.rows.items[Math.min(from, this.count - 1)] ?? 0);
    return Math.max(0, Math.min(this.count - 1, lowerBound(this.rows, row)));
  }

  private changed(at: number): void {
    const kept = lowerBound(this.rows, at);
    const removed = this.count - kept;
    this.rows.truncate(kept);
    this.take(at);
    if (removed || this.count > kept) {
      this.tell(kept, removed, this.count - kept);
    }
  }

  private take(from: number): void {
    for (let row = from; row < this.all.count; row++) {
      if (this.all.ranksAt(row) < this.worldSize) {
        this.rows.push(row);
      }
    }
  }
}
