/** The log of one rank, as rows. Lines that come again are dropped; a gap is a row that stands for the missing lines
 * until they come. */
import type { LogDelta } from '../protocol/log';
import type { Block, Unpacked } from './block';
import { RankBlocks } from './rank_blocks';
import {
  type LogRow,
  type LogRows,
  type LineLocation,
  PLACEHOLDER_COLUMNS,
  type RankSets,
  type RowsListener,
} from './rows';

export class RankLog extends RankBlocks implements LogRows {
  /** the line that still grows */
  partial = '';
  /** rows of blocks that changed: as `watch`, not counting the row of dropped lines */
  onSplice: RowsListener = () => undefined;
  readonly folded = 0;
  private announced = 0;

  constructor(
    readonly rank: number,
    unpacked: Unpacked,
    private readonly sets: RankSets,
    /** a block will not grow any more */
    onClosed: (block: Block) => void,
  ) {
    super(unpacked, onClosed);
  }

  protected changed(at: number, removed: number, added: number): void {
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

  /** Let the oldest block go. */
  drop(): void {
    const above = this.above;
    const rows = this.dropBlock();
    if (rows) {
      this.onSplice(0, rows, 0);
      this.tell(0, rows + above, 1);
    }
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
    const block = this.blockAt(at);
    const index = at - this.above - block.rowStart - block.placeholders;
    if (index < 0) {
      return this.placeholder(block);
    }
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

  locate(at: number, place: LineLocation): void {
    place.block = null;
    if (at >= this.above) {
      const block = this.blockAt(at);
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
    const block = this.blockOf(line);
    if (!block) {
      return Math.max(0, this.count - 1);
    }
    return this.above + block.rowStart + block.placeholders + block.indexOf(line);
  }

  private blockAt(row: number): Block {
    return this.blocks[this.indexOfRow(row - this.above)]!;
  }
}
