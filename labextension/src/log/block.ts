/** Some thousand lines of a rank: as strings while they come, then as bytes, packed later; read again when looked at. */
import { deflateSync, inflateSync, strFromU8, strToU8 } from 'fflate';

import { firstWhere, growing16, growing32, growingFloat, type NumberArray } from './growing';
import { errorMark, plain, shownColumns } from './ansi';
import { heightInLines, outputOf } from './outputs';

/** characters of a full block, and lines where lines are short */
const FULL = 64 * 1024;
const MOST_LINES = 8192;
const ERROR = 0x8000;
const COLUMNS = 0x7fff;
/** added to an output's height in lines, which stands in the place of columns */
export const HIGH = 0x7e00;
const MOST_COLUMNS = HIGH - 1;
/** bytes of a line in indexes */
const LINE_BYTES = 30;
/** bytes of the log in a block: a file may leave some out */
const MOST_BYTES = 2 ** 31;

export class Block {
  count = 0;
  /** the address behind the last line */
  end: number;
  /** bytes right before the first line that are not here; the last of them were passed over and do not come */
  gap = 0;
  passed = 0;
  /** position of the first row, that of a placeholder if there is one, among the rows of the rank's log */
  rowStart = 0;
  private lines: string[] | null = [];
  /** strings that live on cost the page its pauses: bytes do not */
  private raw: Uint8Array | null = null;
  private packed: Uint8Array | null = null;
  private unpackedBytes = 0;
  private characters = 0;
  private readonly times = growingFloat();
  /** beginnings of lines, in bytes behind the first */
  private readonly starts = growing32();
  /** columns, and the top bit for lines that begin an error */
  private readonly marks = growing16();

  constructor(
    /** address of the first line */
    readonly first: number,
  ) {
    this.end = first;
  }

  /** bytes before the first line that are to come */
  get missing(): number {
    return this.gap - this.passed;
  }

  /** no more lines come */
  get closed(): boolean {
    return this.lines === null;
  }

  get full(): boolean {
    const { closed, characters, count, end, first } = this;
    return closed || characters >= FULL || count >= MOST_LINES || end - first >= MOST_BYTES;
  }

  /** rows that stand for what is missing before the first line */
  get placeholders(): number {
    return this.gap ? 1 : 0;
  }

  get rows(): number {
    return this.placeholders + this.count;
  }

  /** bytes that the block takes packed, with the indexes of its lines, here and in the merged log; 0 before that */
  get bytes(): number {
    return this.packed ? this.packed.length + LINE_BYTES * this.count : 0;
  }

  /** Add the line from one address to another. `inTraceback`: true when an exception's line ends a traceback,
   * which has been counted. */
  push(
    line: string,
    [start, end]: readonly [number, number],
    time: number,
    inTraceback: boolean,
  ): { error: boolean; inTraceback: boolean } {
    const text = plain(line);
    const mark = errorMark(text);
    const error = mark === 'traceback' || mark === 'native' || (mark === 'exception' && !inTraceback);
    this.lines!.push(line);
    this.characters += line.length + 1;
    this.times.push(time);
    this.starts.push(start - this.first);
    this.end = end;
    // without escape sequences there is no output
    const output = text === line ? null : outputOf(line);
    const columns = output ? HIGH + heightInLines(output) : Math.min(MOST_COLUMNS, shownColumns(text));
    this.marks.push(columns | (error ? ERROR : 0));
    this.count++;
    return { error, inTraceback: mark === 'none' ? inTraceback : mark === 'traceback' };
  }

  /** Return the address of a line. */
  lineAt(index: number): number {
    return this.first + this.starts.items[index]!;
  }

  /** Return the first line that begins at an address or after it. */
  indexOf(line: number): number {
    return firstWhere(this.count, at => this.lineAt(at) >= line);
  }

  time(index: number): number {
    return this.times.items[index]!;
  }

  /** Return the columns that a line takes; see `HIGH`. */
  columns(index: number): number {
    return this.marks.items[index]! & COLUMNS;
  }

  isError(index: number): boolean {
    return (this.marks.items[index]! & ERROR) !== 0;
  }

  /** The lines as they are at hand: null once the block is closed. */
  get fresh(): readonly string[] | null {
    return this.lines;
  }

  /** Return all lines, joined by newlines. */
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
      trim(this.starts);
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
