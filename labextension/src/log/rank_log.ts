/**
 * The log of one rank: blocks of numbered lines. Lines that come again are dropped; a gap is a row that
 * stands for the missing lines until they come.
 */
import type { LogDelta } from '../protocol';
import { Block, type Unpacked } from './block';
import type { RankSets } from './rank_sets';
import {
  PLACEHOLDER_COLUMNS,
  type LogRow,
  type LogRows,
  type Place,
  type RowsListener,
  Watchers,
} from './rows';

type Times = readonly (readonly [number, number])[];

export class RankLog implements LogRows {
  readonly blocks: Block[] = [];
  /** the line that still grows */
  partial = '';
  /** errors that were seen: a traceback with its exception is one */
  errors = 0;
  /** number of the first line that is still here */
  first = 0;
  /** number of the line after the last */
  next = 0;
  /** lines known to be missing */
  missing = 0;
  /** whether lines have numbers that are too great: how many come before them is not known yet */
  provisional = false;
  /** rows of blocks that changed: as `watch`, not counting the row of dropped lines */
  onSplice: RowsListener = () => undefined;
  private announced = 0;
  private inTraceback = false;
  private skippedAhead = { line: -1, bytes: 0 };
  private firstErrorLine = -1;
  private known = 0;
  private readonly watchers = new Watchers();

  constructor(
    readonly rank: number,
    private readonly unpacked: Unpacked,
    private readonly sets: RankSets,
    /** a block will not grow any more */
    private readonly onClosed: (block: Block) => void,
  ) {}

  /** Lines get numbers that differ by `by`, which are theirs for good: those before them have been counted. */
  renumber(by: number): void {
    this.provisional = false;
    for (const block of this.blocks) {
      block.first += by;
    }
    this.next += by;
    this.announced += by;
    this.skippedAhead.line += by;
    this.firstErrorLine += this.firstErrorLine < 0 ? 0 : by;
    const oldest = this.blocks[0];
    if (oldest) {
      oldest.missing += by;
      this.missing += by;
    }
  }

  /** Forget all lines: they come again, with other numbers. */
  forget(): void {
    const rows = this.count;
    this.blocks.splice(0).forEach(block => this.unpacked.forget(block));
    this.first = this.next = this.announced = this.missing = this.known = this.errors = 0;
    this.firstErrorLine = this.skippedAhead.line = -1;
    this.partial = '';
    this.provisional = this.inTraceback = false;
    this.watchers.tell(0, rows, 0);
  }

  get incomplete(): boolean {
    return this.missing > 0 || this.announced > this.next;
  }

  receive(delta: LogDelta): void {
    const end = delta.first + delta.count;
    this.announced = Math.max(this.announced, end);
    if (end >= this.next) {
      this.partial = delta.partial;
    }
    if (!delta.count) {
      if (delta.skipped && delta.first >= this.next) {
        this.skippedAhead = { line: delta.first, bytes: delta.skipped };
      }
      return;
    }
    if (delta.first < this.next && this.missing) {
      this.fill(delta);
    }
    if (end > this.next) {
      this.append(delta);
    }
  }

  /** Lines that are here. */
  get lines(): number {
    return this.known;
  }

  readonly folded = 0;

  /** Rows of blocks: lines, and placeholders of what is missing. */
  get blockRows(): number {
    const last = this.blocks.at(-1);
    return last ? last.rowStart + last.rows : 0;
  }

  /** 1 when a row at the top tells of dropped lines. */
  get above(): number {
    return this.first > 0 ? 1 : 0;
  }

  get count(): number {
    return this.above + this.blockRows;
  }

  line(line: number): string | undefined {
    const block = this.blocks[this.indexOfLine(line)];
    return block && line >= block.first ? this.unpacked.lines(block)[line - block.first] : undefined;
  }

  get firstError(): number {
    return this.firstErrorLine < 0 ? -1 : this.find(this.rank, this.firstErrorLine);
  }

  row(at: number): LogRow {
    const { rank } = this;
    const ranks = this.sets.single(rank);
    if (at < this.above) {
      return { kind: 'dropped', rank, line: 0, ranks, time: NaN, text: '', amount: this.first };
    }
    const block = this.blocks[this.indexOfRow(at - this.above)]!;
    const index = at - this.above - block.rowStart - block.placeholders;
    if (index < 0) {
      return this.placeholder(block, index);
    }
    const text = this.unpacked.lines(block)[index]!;
    return { kind: 'line', rank, line: block.first + index, ranks, time: block.time(index), text, amount: 0 };
  }

  /** The placeholder `before` (-1, -2) the first line of a block. */
  placeholder(block: Block, before: number): LogRow {
    const skipped = block.skipped > 0 && before === -1;
    return {
      kind: skipped ? 'skipped' : 'missing',
      rank: this.rank,
      line: block.first,
      ranks: this.sets.single(this.rank),
      time: NaN,
      text: '',
      amount: skipped ? block.skipped : this.provisional ? NaN : block.missing,
    };
  }

  /** Lines missing in the last gap before a line. */
  missingBefore(line: number): number {
    let at = this.indexOfLine(line);
    while (at >= 0 && !this.blocks[at]?.missing) {
      at--;
    }
    return this.blocks[at]?.missing ?? 0;
  }

  locate(at: number, place: Place): void {
    place.block = null;
    if (at >= this.above) {
      const block = this.blocks[this.indexOfRow(at - this.above)]!;
      place.index = at - this.above - block.rowStart - block.placeholders;
      place.block = place.index < 0 ? null : block;
    }
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
    const block = this.blocks[this.indexOfLine(line)];
    if (!block) {
      return Math.max(0, this.count - 1);
    }
    return this.above + block.rowStart + block.placeholders + Math.max(0, line - block.first);
  }

  watch(listener: RowsListener): () => void {
    return this.watchers.add(listener);
  }

  /** The block that holds a line, or the next one after it. */
  blockOf(line: number): Block | undefined {
    return this.blocks[this.indexOfLine(line)];
  }

  /** Position of the block that holds a row of blocks. */
  indexOfRow(row: number): number {
    let low = 0;
    let high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if (this.blocks[middle]!.rowStart <= row) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  /** Let the oldest block go. */
  drop(): void {
    const block = this.blocks.shift();
    if (!block) {
      return;
    }
    this.unpacked.forget(block);
    const above = this.above;
    this.missing -= block.missing;
    this.known -= block.count;
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
    this.onSplice(0, rows, 0);
    this.watchers.tell(0, rows + above, 1);
  }

  private append(delta: LogDelta): void {
    const { first, lines, count } = delta;
    const rows = this.blockRows;
    const from = Math.max(first, this.next);
    const skipped = from === first ? delta.skipped || this.skippedBefore(first) : 0;
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
    this.onSplice(rows, 0, this.blockRows - rows);
    this.watchers.tell(this.above + rows, 0, this.blockRows - rows);
  }

  private skippedBefore(line: number): number {
    return this.skippedAhead.line === line ? this.skippedAhead.bytes : 0;
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
    this.known++;
    if (error) {
      this.errors++;
      this.firstErrorLine = this.firstErrorLine < 0 ? number : Math.min(this.firstErrorLine, number);
    }
  }

  /** Put lines where they were missing. */
  private fill(delta: LogDelta): void {
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
    const added = after.rowStart + (restAfter ? 1 : 0) - row;
    this.onSplice(row, 1, added);
    this.watchers.tell(this.above + row, 1, added);
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
    if (this.firstErrorLine >= this.first) {
      return;
    }
    this.firstErrorLine = -1;
    for (const block of this.blocks) {
      for (let index = 0; index < block.count; index++) {
        if (block.isError(index)) {
          this.firstErrorLine = block.first + index;
          return;
        }
      }
    }
  }

  /** Position of the block that holds a line, or of the next one after it. */
  private indexOfLine(line: number): number {
    let low = 0;
    let high = this.blocks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.blocks[middle]!.end <= line) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}

/** The times of lines, one by one, from runs of equal times. */
class LineTimes {
  private run = 0;
  private used = 0;

  constructor(
    private readonly times: Times,
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
