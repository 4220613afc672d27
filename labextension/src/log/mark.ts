import type { LogRows } from './rows';

/** A row that is kept track of while rows come and go. */
export class Mark {
  constructor(
    public row: number,
    private readonly rank: number,
    private readonly line: number,
  ) {}

  static at(rows: LogRows, at: number): Mark {
    const { rank, line } = rows.row(at);
    return new Mark(at, rank, line);
  }

  changed(rows: LogRows, at: number, removed: number, added: number): void {
    if (this.row >= at + removed) {
      this.row += added - removed;
    } else if (this.row >= at) {
      this.row = rows.find(this.rank, this.line, at);
    }
  }
}
