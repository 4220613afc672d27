/** The log of one rank, as rows: blocks of lines, which are put at the end or where they were missing. Lines that come
 * again are dropped; a gap is a row that stands for the missing lines until they come. */
import type { LogDelta } from '../protocol/log';
import { Block, HIGH, type Unpacked } from './block';
import { firstWhere } from './growing';
import {
  type LogRow,
  type LogRows,
  type LineLocation,
  PLACEHOLDER_COLUMNS,
  type RankSets,
  type RowsListener,
  Watched,
} from './rows';

export class RankLog extends Watched implements LogRows {
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
  private errorLine = -1;
  private inTraceback = false;
  /** the line that still grows */
  partial = '';
  /** rows of blocks that changed: as `watch`, not counting the row of dropped lines */
  onSplice: RowsListener = () => undefined;
  readonly folded = 0;
  private announced = 0;

  constructor(
    readonly rank: number,
    private readonly unpacked: Unpacked,
    private readonly sets: RankSets,
    /** a block will not grow any more */
    private readonly onClosed: (block: Block) => void,
  ) {
    super();
  }

  private changed(at: number, removed: number, added: number): void {
    this.onSplice(at, removed, added);
    this.tell(this.above + at, removed, added);
  }

  receive(delta: LogDelta): void {
    this.announced = Math.max(this.announced, delta.end);
    if (delta.end >= this.next) {
      this.partial = delta.partial;
    }
    if (delta.count && delta.first < this.next) {
      this.fill(delta);
    }
    if (delta.count && delta.end > this.next) {
      this.append(delta);
    }
  }

  /** Drop the oldest block. */
  drop(): void {
    const { above } = this;
    const block = this.blocks.shift();
    if (!block) {
      return;
    }
    this.unpacked.forget(block);
    this.setGap(block, 0);
    this.lines -= block.count;
    this.first = block.end;
    let { rows } = block;
    const following = this.blocks[0];
    if (following?.gap) {
      // what was missing there has gone with the rest
      this.first = following.first;
      this.setGap(following, 0);
      rows++;
    }
    this.number(0);
    this.findFirstError();
    this.onSplice(0, rows, 0);
    this.tell(0, rows + above, 1);
  }

  get incomplete(): boolean {
    return this.missing > 0 || this.announced > this.next;
  }

  /** 1 when a row at the top tells of dropped lines. */
  get above(): number {
    return this.first > 0 ? 1 : 0;
  }

  get count(): number {
    return this.above + this.blockRows;
  }

  get firstError(): number {
    return this.errorLine < 0 ? -1 : this.find(this.rank, this.errorLine);
  }

  row(at: number): LogRow {
    const { rank } = this;
    const ranks = this.sets.of(rank);
    if (at < this.above) {
      return { kind: 'dropped', rank, line: 0, ranks, time: NaN, text: '', amount: this.first };
    }
    const place = this.locate(at);
    if (!place) {
      return this.placeholder(this.blockAt(at));
    }
    const { block, index } = place;
    const text = this.unpacked.lines(block)[index]!;
    return { kind: 'line', rank, line: block.lineAt(index), ranks, time: block.time(index), text, amount: 0 };
  }

  /** Return the row that stands for what is missing before a block. */
  placeholder(block: Block): LogRow {
    return {
      kind: block.missing ? 'missing' : 'skipped',
      rank: this.rank,
      line: block.first,
      ranks: this.sets.of(this.rank),
      time: NaN,
      text: '',
      amount: block.gap,
    };
  }

  locate(at: number): LineLocation | null {
    const block = at < this.above ? undefined : this.blockAt(at);
    const index = block ? at - this.above - block.rowStart - block.placeholders : -1;
    return block && index >= 0 ? { block, index } : null;
  }

  columns(from: number, to: number, into: Uint16Array): void {
    let at = from;
    for (; at < this.above && at < to; at++) {
      into[at - from] = PLACEHOLDER_COLUMNS;
    }
    for (let number = this.indexOfRow(at - this.above); at < to; number++) {
      const block = this.blocks[number]!;
      const start = this.above + block.rowStart;
      for (const end = Math.min(to, start + block.rows); at < end; at++) {
        const index = at - start - block.placeholders;
        into[at - from] = index < 0 ? PLACEHOLDER_COLUMNS : block.columns(index);
      }
    }
  }

  find(_rank: number, line: number): number {
    const block = this.blockOf(line);
    if (!block) {
      return Math.max(0, this.count - 1);
    }
    return this.above + block.rowStart + block.placeholders + block.indexOf(line);
  }

  private blockAt(row: number): Block {
    return this.blocks[this.indexOfRow(row - this.above)]!;
  }

  /** Lines, and placeholders of what is missing. */
  get blockRows(): number {
    const last = this.blocks.at(-1);
    return last ? last.rowStart + last.rows : 0;
  }

  /** Add lines at the end. */
  private append(delta: LogDelta): void {
    const { first, edges, count, end, skipped } = delta;
    const rows = this.blockRows;
    const from = firstWhere(count, at => edges[at]! >= this.next);
    const gap = from ? 0 : first - this.next;
    const last = this.blocks.at(-1);
    if (gap && last) {
      this.close(last);
    }
    const added = this.put(delta, from, count, gap ? undefined : last);
    if (added[0]) {
      this.setGap(added[0], gap, skipped);
    }
    this.blocks.push(...added);
    this.number(this.blocks.length - added.length);
    this.written += count - from;
    this.next = end;
    this.changed(rows, 0, this.blockRows - rows);
  }

  /** Put lines where they were missing. */
  private fill(delta: LogDelta): void {
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

  /** Put lines of `delta` into a block, and into further ones, which are returned, when it is full. */
  private put(delta: LogDelta, from: number, to: number, into: Block | undefined): Block[] {
    const { lines, edges } = delta;
    const times = timesOf(delta);
    const blocks: Block[] = [];
    let block = into;
    for (let at = from; at < to; at++) {
      if (!block || block.full) {
        if (block) {
          this.close(block);
        }
        block = new Block(edges[at]!);
        blocks.push(block);
      }
      this.push(block, lines[at]!, [edges[at]!, edges[at + 1]!], times[at]!);
    }
    return blocks;
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
    const { edges, count, end, skipped } = delta;
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
    const inTraceback = this.inTraceback;
    this.inTraceback = false;
    // a block that was put into the gap goes on
    const before = this.blocks[at - 1];
    const grows = before && !before.full && before.end === edges[from] && !restBefore ? before : undefined;
    const filled = this.put(delta, from, to, grows);
    this.inTraceback = inTraceback;
    if (filled[0]) {
      this.setGap(filled[0], restBefore, passed);
    }
    this.setGap(after, restAfter, after.passed);
    this.blocks.splice(at, 0, ...filled);
    this.number(Math.max(0, at - 1));
    if (!restAfter) {
      this.close((filled.at(-1) ?? grows)!);
    }
    this.changed(row, 1, after.rowStart + (restAfter ? 1 : 0) - row);
    return filled.length;
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
