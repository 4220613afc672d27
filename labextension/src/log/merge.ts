/**
 * Puts the lines of all ranks in one order: by time, then by rank, each rank's own order kept. What several
 * ranks write at the same time is brought close together, so that it can be folded.
 */
import type { Unpacked } from './block';
import type { Entries } from './entries';
import type { Fold } from './fold';
import type { RankLog } from './rank_log';

/** lines placed between two looks at the clock */
const STRIDE = 128;
/**
 * Of lines with the same time a rank places so many before it is the next one's turn: times are as coarse
 * as the rounds in which logs are read, and equal lines are to come close together.
 */
const TURN = 32;
/** and so many rows ahead the others look for its line, to bring it to the same place */
const AHEAD = 16;
/** of so many lines with the same time: a rank that writes more at once is not read line by line */
const ALIGNED = 64;

/** How far the lines of one rank have been placed. */
export interface Cursor {
  readonly log: RankLog;
  /** the next row of the rank's blocks */
  row: number;
  /** position of the block of that row, when it was last looked up */
  block: number;
  /** the time of that row, and how many rows with that time have been placed */
  time: number;
  placed: number;
}

/** Takes rows of ranks by time, as far as they have come. */
export class Merge {
  constructor(
    readonly entries: Entries,
    readonly fold: Fold,
    readonly cursors: Cursor[],
    private readonly unpacked: Unpacked,
  ) {}

  cursor(log: RankLog): Cursor {
    let cursor = this.cursors.find(other => other.log === log);
    if (!cursor) {
      cursor = cursorAt(log, 0);
      this.cursors.push(cursor);
      this.cursors.sort((a, b) => a.log.rank - b.log.rank);
    }
    return cursor;
  }

  /**
   * Place rows up to the time `limit`; false when there was not time enough for all. What stands behind
   * missing lines waits with them while more is to come, and that is so when there is a limit.
   */
  run(limit: number, timeUp: () => boolean): boolean {
    const waits = limit < Number.MAX_VALUE;
    for (let placed = 1; ; placed++) {
      let earliest: Cursor | null = null;
      for (const cursor of this.cursors) {
        look(cursor, waits);
        if (cursor.time <= limit && (!earliest || isBefore(cursor, earliest))) {
          earliest = cursor;
        }
      }
      if (!earliest) {
        return true;
      }
      const { time } = earliest;
      do {
        this.placeTogether(earliest);
        look(earliest, waits);
      } while (earliest.time === time && earliest.placed % TURN);
      if (placed % (STRIDE / TURN) === 0 && timeUp()) {
        return false;
      }
    }
  }

  /** Rows that have come and are not placed. */
  get waiting(): number {
    return this.cursors.reduce((sum, { log, row }) => sum + Math.max(0, log.blockRows - row), 0);
  }

  /** Whether a rank's next row stands for missing lines. */
  get meetsGap(): boolean {
    return this.cursors.some(cursor => {
      look(cursor, false);
      return isGap(cursor);
    });
  }

  /** Place the next row of a rank; first, what others wrote before the same line at the same time. */
  private placeTogether(cursor: Cursor): void {
    const text = cursor.placed < ALIGNED ? this.textAhead(cursor, 0) : null;
    for (const other of text === null ? [] : this.cursors) {
      if (other !== cursor && other.time === cursor.time) {
        for (let rows = this.rowsBefore(other, text!); rows > 0; rows--) {
          this.place(other);
        }
      }
    }
    this.place(cursor);
  }

  /** How many rows of a rank's time come before a line, 0 when it is not near. */
  private rowsBefore(cursor: Cursor, text: string): number {
    for (let ahead = 0; ahead < AHEAD; ahead++) {
      const line = this.textAhead(cursor, ahead);
      if (line === text) {
        return ahead;
      }
      if (line === undefined) {
        return 0;
      }
    }
    return 0;
  }

  /** A line of the block and the time where a rank stands; null for a placeholder, undefined for none. */
  private textAhead(cursor: Cursor, ahead: number): string | null | undefined {
    const block = cursor.log.blocks[cursor.block];
    if (!block) {
      return undefined;
    }
    const index = cursor.row + ahead - block.rowStart - block.placeholders;
    if (index < 0) {
      return null;
    }
    const near = index < block.count && block.time(index) === cursor.time;
    return near ? this.unpacked.lines(block)[index] : undefined;
  }

  private place(cursor: Cursor): void {
    const { log } = cursor;
    const block = log.blocks[cursor.block]!;
    const index = cursor.row - block.rowStart - block.placeholders;
    cursor.row++;
    cursor.placed++;
    if (index < 0) {
      this.fold.placeholder(log.rank, block.first);
      return;
    }
    const text = this.unpacked.lines(block)[index]!;
    this.fold.line(log.rank, block.lineAt(index), text, block.time(index), block.isError(index));
  }
}

export function cursorAt(log: RankLog, row: number): Cursor {
  return { log, row, block: 0, time: NaN, placed: 0 };
}

/** Look up the next row of a rank; its time is Infinity when there is none, or when its lines are to come. */
function look(cursor: Cursor, waits: boolean): void {
  const next = nextTime(cursor);
  const time = waits && isGap(cursor) ? Infinity : next;
  if (time !== cursor.time) {
    cursor.time = time;
    cursor.placed = 0;
  }
}

function isGap(cursor: Cursor): boolean {
  const block = cursor.log.blocks[cursor.block];
  return block !== undefined && block.missing > 0 && cursor.row === block.rowStart;
}

function nextTime(cursor: Cursor): number {
  const { blocks } = cursor.log;
  let block = blocks[cursor.block];
  if (!block || cursor.row < block.rowStart || cursor.row >= block.rowStart + block.rows) {
    cursor.block = cursor.log.indexOfRow(cursor.row);
    block = blocks[cursor.block];
    if (!block || cursor.row >= block.rowStart + block.rows) {
      return Infinity;
    }
  }
  return block.time(Math.max(0, cursor.row - block.rowStart - block.placeholders));
}

/** By time, then by turn; of ranks in the same turn the lower one, which comes first here, goes first. */
function isBefore(a: Cursor, b: Cursor): boolean {
  return a.time < b.time || (a.time === b.time && Math.floor(a.placed / TURN) < Math.floor(b.placed / TURN));
}
