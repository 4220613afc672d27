/**
 * The blocks of one rank's log: this module alone puts lines into them, at the end or where they were missing,
 * and numbers their rows.
 */
import type { LogDelta } from '../protocol';
import { Block, type Unpacked } from './block';
import { firstWhere } from './growing';
import { Watched } from './rows';

export abstract class RankBlocks extends Watched {
  readonly blocks: Block[] = [];
  /** errors that were seen: a traceback with its exception is one */
  errors = 0;
  /** number of the first line that is still here */
  first = 0;
  /** number of the line after the last */
  next = 0;
  /** lines known to be missing, and lines that are here */
  missing = 0;
  lines = 0;
  /** number of the line where the first error begins, -1 for none */
  protected errorLine = -1;
  private inTraceback = false;

  constructor(
    protected readonly unpacked: Unpacked,
    /** a block will not grow any more */
    private readonly onClosed: (block: Block) => void,
  ) {
    super();
  }

  /** Rows of blocks have come, in the place of others. */
  protected abstract changed(at: number, removed: number, added: number): void;

  /** Lines, and placeholders of what is missing. */
  get blockRows(): number {
    const last = this.blocks.at(-1);
    return last ? last.rowStart + last.rows : 0;
  }

  /** Lines get numbers that differ by `by`: those before the first have been counted. */
  renumber(by: number): void {
    for (const block of this.blocks) {
      block.first += by;
    }
    this.next += by;
    this.errorLine += this.errorLine < 0 ? 0 : by;
    const oldest = this.blocks[0];
    if (oldest) {
      oldest.missing += by;
      this.missing += by;
    }
  }

  forget(): void {
    this.blocks.splice(0).forEach(block => this.unpacked.forget(block));
    this.first = this.next = this.missing = this.lines = this.errors = 0;
    this.errorLine = -1;
    this.inTraceback = false;
  }

  /** Add lines at the end; `skipped` bytes of the log were passed over before the first of them. */
  protected append(delta: LogDelta, skipped: number): void {
    const { first, lines, count } = delta;
    const rows = this.blockRows;
    const from = Math.max(first, this.next);
    let block = this.blocks.at(-1);
    const gap = first - this.next;
    if (block && (gap > 0 || skipped)) {
      this.close(block);
    }
    const times = new LineTimes(delta.times, from - first);
    for (let line = from; line < first + count; line++) {
      if (!block || block.full) {
        if (block && !block.closed) {
          this.close(block);
        }
        block = this.open(line, line === from ? skipped : 0, line === from ? Math.max(0, gap) : 0);
      }
      this.push(block, lines[line - first]!, times.next());
    }
    this.next = first + count;
    this.changed(rows, 0, this.blockRows - rows);
  }

  /** Put lines where they were missing. */
  protected fill(delta: LogDelta): void {
    const end = delta.first + delta.count;
    for (let at = this.indexOfLine(delta.first); at < this.blocks.length; at++) {
      const after = this.blocks[at]!;
      const from = Math.max(delta.first, after.first - after.missing, this.first);
      const to = Math.min(end, after.first);
      if (after.missing && from < to) {
        at += this.fillBefore(at, from, to, delta);
      }
      if (after.first >= end) {
        return;
      }
    }
  }

  /** Let the oldest block go; how many rows went. */
  protected dropBlock(): number {
    const block = this.blocks.shift();
    if (!block) {
      return 0;
    }
    this.unpacked.forget(block);
    this.missing -= block.missing;
    this.lines -= block.count;
    this.first = block.end;
    let rows = block.rows;
    const following = this.blocks[0];
    if (following?.missing) {
      // what was missing there has gone with the rest
      this.first = following.first;
      this.missing -= following.missing;
      following.missing = 0;
      rows++;
    }
    this.number(0);
    this.findFirstError();
    return rows;
  }

  /** Lines missing in the last gap before a line. */
  missingBefore(line: number): number {
    let at = this.indexOfLine(line);
    while (at >= 0 && !this.blocks[at]?.missing) {
      at--;
    }
    return this.blocks[at]?.missing ?? 0;
  }

  /** The block that holds a line, or the next one after it. */
  blockOf(line: number): Block | undefined {
    return this.blocks[this.indexOfLine(line)];
  }

  /** Position of the block that holds a row. */
  indexOfRow(row: number): number {
    return Math.max(0, firstWhere(this.blocks.length, at => this.blocks[at]!.rowStart > row) - 1);
  }

  private open(first: number, skipped: number, missing: number): Block {
    const block = new Block(first, skipped);
    block.missing = missing;
    block.rowStart = this.blockRows;
    this.missing += missing;
    this.blocks.push(block);
    return block;
  }

  private close(block: Block): void {
    if (!block.closed) {
      block.close();
      this.onClosed(block);
    }
  }

  private push(block: Block, line: string, time: number): void {
    const number = block.end;
    const { error, inTraceback } = block.push(line, time, this.inTraceback);
    this.inTraceback = inTraceback;
    this.lines++;
    if (error) {
      this.errors++;
      this.errorLine = this.errorLine < 0 ? number : Math.min(this.errorLine, number);
    }
  }

  /** Fill lines `from` to `to` in the gap before the block at `at`; how many blocks that made. */
  private fillBefore(at: number, from: number, to: number, delta: LogDelta): number {
    const after = this.blocks[at]!;
    const row = after.rowStart;
    const restBefore = from - (after.first - after.missing);
    const restAfter = after.first - to;
    const times = new LineTimes(delta.times, from - delta.first);
    const inTraceback = this.inTraceback;
    const { lines } = delta;
    const filled: Block[] = [];
    this.inTraceback = false;
    let block = this.growing(at - 1, from, restBefore, delta);
    for (let line = from; line < to; line++) {
      if (!block || block.full) {
        if (block) {
          this.close(block);
        }
        block = new Block(line, line === from && from === delta.first ? delta.skipped : 0);
        filled.push(block);
      }
      this.push(block, lines[line - delta.first]!, times.next());
    }
    this.inTraceback = inTraceback;
    this.missing -= to - from;
    if (filled[0]) {
      filled[0].missing = restBefore;
    }
    after.missing = restAfter;
    this.blocks.splice(at, 0, ...filled);
    this.number(Math.max(0, at - 1));
    if (!restAfter) {
      this.close(block!);
    }
    this.changed(row, 1, after.rowStart + (restAfter ? 1 : 0) - row);
    return filled.length;
  }

  /** The block at `at` when it is one that was put into a gap and goes on with line `from`. */
  private growing(at: number, from: number, restBefore: number, delta: LogDelta): Block | undefined {
    const block = this.blocks[at];
    const goesOn = block && !block.full && block.end === from && !restBefore;
    return goesOn && !(delta.skipped && from === delta.first) ? block : undefined;
  }

  /** Number the rows of the blocks from `at` on. */
  private number(at: number): void {
    let row = at ? this.blocks[at - 1]!.rowStart + this.blocks[at - 1]!.rows : 0;
    for (const block of this.blocks.slice(at)) {
      block.rowStart = row;
      row += block.rows;
    }
  }

  private findFirstError(): void {
    if (this.errorLine >= this.first) {
      return;
    }
    this.errorLine = -1;
    for (const block of this.blocks) {
      for (let index = 0; index < block.count; index++) {
        if (block.isError(index)) {
          this.errorLine = block.first + index;
          return;
        }
      }
    }
  }

  /** Position of the block that holds a line, or of the next one after it. */
  private indexOfLine(line: number): number {
    return firstWhere(this.blocks.length, at => this.blocks[at]!.end > line);
  }
}

/** The times of lines, one by one, from runs of equal times. */
class LineTimes {
  private run = 0;
  private used = 0;

  constructor(
    private readonly times: LogDelta['times'],
    passed: number,
  ) {
    for (let i = 0; i < passed; i++) {
      this.next();
    }
  }

  next(): number {
    while (this.run < this.times.length - 1 && this.used >= this.times[this.run]![0]) {
      this.run++;
      this.used = 0;
    }
    this.used++;
    return this.times[this.run]?.[1] ?? 0;
  }
}
