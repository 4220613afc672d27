/** The blocks of one rank's log: this module alone puts lines into them, at the end or where they were missing, and
 * numbers their rows. */
import type { LogDelta } from '../protocol/log';
import { Block, HIGH, type Unpacked } from './block';
import { firstWhere } from './growing';
import { Watched } from './rows';

export abstract class RankBlocks extends Watched {
  readonly blocks: Block[] = [];
  /** errors that were seen: a traceback with its exception is one */
  errors = 0;
  /** address of the first line that is still here */
  first = 0;
  /** address behind the last line */
  next = 0;
  /** bytes that are to come between lines that are here */
  missing = 0;
  /** lines that are here, and lines that have come at the end */
  lines = 0;
  written = 0;
  /** lines that stand for an output and are higher than others */
  high = 0;
  /** address of the line where the first error begins, -1 for none */
  protected errorLine = -1;
  private inTraceback = false;

  constructor(
    protected readonly unpacked: Unpacked,
    /** a block will not grow any more */
    private readonly onClosed: (block: Block) => void,
  ) {
    super();
  }

  /** Take changed rows of blocks. */
  protected abstract changed(at: number, removed: number, added: number): void;

  /** Lines, and placeholders of what is missing. */
  get blockRows(): number {
    const last = this.blocks.at(-1);
    return last ? last.rowStart + last.rows : 0;
  }

  /** Add lines at the end. */
  protected append(delta: LogDelta): void {
    const { first, lines, edges, count, end, skipped } = delta;
    const rows = this.blockRows;
    const from = firstWhere(count, at => edges[at]! >= this.next);
    const gap = from ? 0 : first - this.next;
    const times = timesOf(delta);
    let block = this.blocks.at(-1);
    for (let at = from; at < count; at++) {
      if (!block || block.full || (gap && at === from)) {
        if (block) {
          this.close(block);
        }
        block = new Block(edges[at]!);
        block.rowStart = this.blockRows;
        this.blocks.push(block);
        if (at === from) {
          this.setGap(block, gap, skipped);
        }
      }
      this.push(block, lines[at]!, [edges[at]!, edges[at + 1]!], times[at]!);
    }
    this.written += count - from;
    this.next = end;
    this.changed(rows, 0, this.blockRows - rows);
  }

  /** Put lines where they were missing. */
  protected fill(delta: LogDelta): void {
    for (let at = this.indexOfLine(delta.first); at < this.blocks.length; at++) {
      const after = this.blocks[at]!;
      if (after.gap) {
        at += this.fillBefore(at, delta);
      }
      if (after.first >= delta.end) {
        return;
      }
    }
  }

  /** Drop the oldest block; return the number of its rows. */
  protected dropBlock(): number {
    const block = this.blocks.shift();
    if (!block) {
      return 0;
    }
    this.unpacked.forget(block);
    this.setGap(block, 0);
    this.lines -= block.count;
    this.first = block.end;
    let rows = block.rows;
    const following = this.blocks[0];
    if (following?.gap) {
      // what was missing there has gone with the rest
      this.first = following.first;
      this.setGap(following, 0);
      rows++;
    }
    this.number(0);
    this.findFirstError();
    return rows;
  }

  /** Return bytes in the last gap before a line. */
  gapBefore(line: number): number {
    let at = this.indexOfLine(line);
    while (at >= 0 && !this.blocks[at]?.gap) {
      at--;
    }
    return this.blocks[at]?.gap ?? 0;
  }

  /** Return the block that holds a line, or the next one after it. */
  blockOf(line: number): Block | undefined {
    return this.blocks[this.indexOfLine(line)];
  }

  /** Return the position of the block that holds a row. */
  indexOfRow(row: number): number {
    return Math.max(0, firstWhere(this.blocks.length, at => this.blocks[at]!.rowStart > row) - 1);
  }

  private setGap(block: Block, gap: number, passed = 0): void {
    this.missing -= block.missing;
    block.gap = gap;
    block.passed = Math.max(0, Math.min(gap, passed));
    this.missing += block.missing;
  }

  private close(block: Block): void {
    if (!block.closed) {
      block.close();
      this.onClosed(block);
    }
  }

  private push(block: Block, line: string, edges: readonly [number, number], time: number): void {
    const { error, inTraceback } = block.push(line, edges, time, this.inTraceback);
    this.inTraceback = inTraceback;
    this.lines++;
    this.high += block.columns(block.count - 1) >= HIGH ? 1 : 0;
    if (error) {
      this.errors++;
      this.errorLine = this.errorLine < 0 ? edges[0] : Math.min(this.errorLine, edges[0]);
    }
  }

  /** Put the lines of `delta` that belong there into the gap before the block at `at`; return the number of new blocks. */
  private fillBefore(at: number, delta: LogDelta): number {
    const { lines, edges, count, end, skipped } = delta;
    const after = this.blocks[at]!;
    const begin = after.first - after.gap;
    const from = firstWhere(count, line => edges[line]! >= begin);
    const to = firstWhere(count, line => edges[line]! >= after.first);
    if (from >= to) {
      return 0;
    }
    const row = after.rowStart;
    const restBefore = from ? 0 : edges[0]! - begin;
    const restAfter = to < count ? 0 : Math.max(0, after.first - end);
    const passed = Math.max(from ? 0 : skipped, edges[from]! - (after.first - after.passed));
    const times = timesOf(delta);
    const inTraceback = this.inTraceback;
    const filled: Block[] = [];
    this.inTraceback = false;
    let block = this.growing(at - 1, edges[from]!, restBefore);
    for (let line = from; line < to; line++) {
      if (!block || block.full) {
        if (block) {
          this.close(block);
        }
        block = new Block(edges[line]!);
        filled.push(block);
      }
      this.push(block, lines[line]!, [edges[line]!, edges[line + 1]!], times[line]!);
    }
    this.inTraceback = inTraceback;
    if (filled[0]) {
      this.setGap(filled[0], restBefore, passed);
    }
    this.setGap(after, restAfter, after.passed);
    this.blocks.splice(at, 0, ...filled);
    this.number(Math.max(0, at - 1));
    if (!restAfter) {
      this.close(block!);
    }
    this.changed(row, 1, after.rowStart + (restAfter ? 1 : 0) - row);
    return filled.length;
  }

  /** Return the block at `at` when it is one that was put into a gap and goes on with line `from`. */
  private growing(at: number, from: number, restBefore: number): Block | undefined {
    const block = this.blocks[at];
    return block && !block.full && block.end === from && !restBefore ? block : undefined;
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
          this.errorLine = block.lineAt(index);
          return;
        }
      }
    }
  }

  /** Return the position of the block that holds a line, or of the next one after it. */
  private indexOfLine(line: number): number {
    return firstWhere(this.blocks.length, at => this.blocks[at]!.end > line);
  }
}

/** Return the time of each line, from runs of equal times. */
function timesOf({ times }: LogDelta): number[] {
  return times.flatMap(([count, time]) => new Array<number>(count).fill(time));
}
