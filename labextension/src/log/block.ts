/** Some thousand lines of a rank: as strings while they come, then as bytes, packed later; read again when looked at. */
import { deflateSync, inflateSync, strFromU8, strToU8 } from 'fflate';

import { growing16, growingFloat, type NumberArray } from './growing';
import { errorMark, plain, shownColumns } from './line_text';

/** characters of a full block, and lines where lines are short */
const FULL = 64 * 1024;
const MOST_LINES = 8192;
const ERROR = 0x8000;
const MOST_COLUMNS = 0x7fff;

export class Block {
  count = 0;
  /** lines missing right before the first */
  missing = 0;
  /** position of the first row, that of a placeholder if there is one, among the rows of the rank's log */
  rowStart = 0;
  private lines: string[] | null = [];
  /** strings that live on cost the page its pauses: bytes do not */
  private raw: Uint8Array | null = null;
  private packed: Uint8Array | null = null;
  private unpackedBytes = 0;
  private characters = 0;
  private readonly times = growingFloat();
  /** columns, and the top bit for lines that begin an error */
  private readonly marks = growing16();

  constructor(
    /** number of the first line */
    public first: number,
    /** bytes of the log that were passed over before the first line */
    readonly skipped: number,
  ) {}

  get end(): number {
    return this.first + this.count;
  }

  /** no more lines come */
  get closed(): boolean {
    return this.lines === null;
  }

  get full(): boolean {
    return this.closed || this.characters >= FULL || this.count >= MOST_LINES;
  }

  /** rows that stand for what is missing before the first line */
  get placeholders(): number {
    return (this.missing ? 1 : 0) + (this.skipped ? 1 : 0);
  }

  get rows(): number {
    return this.placeholders + this.count;
  }

  /** bytes of the packed text; 0 before it is packed */
  get bytes(): number {
    return this.packed?.length ?? 0;
  }

  /** Add a line. `inTraceback`: whether an exception's line ends a traceback, which has been counted. */
  push(line: string, time: number, inTraceback: boolean): { error: boolean; inTraceback: boolean } {
    const text = plain(line);
    const mark = errorMark(text);
    const error = mark === 'traceback' || mark === 'native' || (mark === 'exception' && !inTraceback);
    this.lines!.push(line);
    this.characters += line.length + 1;
    this.times.push(time);
    this.marks.push(Math.min(MOST_COLUMNS, shownColumns(text)) | (error ? ERROR : 0));
    this.count++;
    return { error, inTraceback: mark === 'none' ? inTraceback : mark === 'traceback' };
  }

  time(index: number): number {
    return this.times.items[index]!;
  }

  columns(index: number): number {
    return this.marks.items[index]! & MOST_COLUMNS;
  }

  isError(index: number): boolean {
    return (this.marks.items[index]! & ERROR) !== 0;
  }

  /** The lines as they are at hand: null once the block is closed. */
  get fresh(): readonly string[] | null {
    return this.lines;
  }

  /** All lines, joined by newlines. */
  text(): string {
    if (this.lines) {
      return this.lines.join('\n');
    }
    return strFromU8(this.raw ?? inflateSync(this.packed!, { out: new Uint8Array(this.unpackedBytes) }));
  }

  /** Take no more lines. */
  close(): void {
    if (this.lines) {
      this.raw = strToU8(this.lines.join('\n'));
      this.lines = null;
      trim(this.times);
      trim(this.marks);
    }
  }

  pack(): void {
    this.close();
    if (this.raw) {
      this.unpackedBytes = this.raw.length;
      this.packed = deflateSync(this.raw, { level: 1 });
      this.raw = null;
    }
  }
}

function trim<T extends NumberArray>(numbers: { items: T; trimmed(): T }): void {
  numbers.items = numbers.trimmed();
}

/** The lines of blocks, the most recently looked at kept unpacked. */
export class Unpacked {
  private readonly kept = new Map<Block, readonly string[]>();
  private latest: { block: Block; lines: readonly string[] } | null = null;

  constructor(public capacity = 32) {}

  lines(block: Block): readonly string[] {
    if (block.fresh) {
      return block.fresh;
    }
    if (this.latest?.block === block) {
      return this.latest.lines;
    }
    const lines = this.kept.get(block) ?? block.text().split('\n');
    this.kept.delete(block);
    this.kept.set(block, lines);
    if (this.kept.size > this.capacity) {
      this.kept.delete(this.kept.keys().next().value!);
    }
    this.latest = { block, lines };
    return lines;
  }

  forget(block: Block): void {
    this.latest = null;
    this.kept.delete(block);
  }
}
