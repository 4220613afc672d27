/** Rows of a log as text: for the clipboard and for a file. */
import { plain } from './line_text';
import type { LogRow, LogRows } from './rows';
import type { Slices } from './slices';
import type { LogWords } from './words';

/** rows that go into one piece of a file */
const PIECE = 2048;

/** A row's text; with `[ranks]` in front when rows of several ranks follow each other. */
export function rowText(row: LogRow, words: LogWords, named: boolean): string {
  const say = { missing: words.missing, skipped: words.skipped, dropped: words.dropped };
  const text = row.kind === 'line' ? plain(row.text) : say[row.kind](row.amount);
  return named && row.ranks ? `[${row.ranks.label}] ${text}` : text;
}

/** The last rows, at most `limit` characters of them. */
export function lastRows(
  rows: LogRows,
  words: LogWords,
  named: boolean,
  limit: number,
): { text: string; count: number } {
  const lines: string[] = [];
  let length = 0;
  for (let at = rows.count - 1; at >= 0; at--) {
    const line = rowText(rows.row(at), words, named);
    length += line.length + 1;
    if (length > limit && lines.length) {
      break;
    }
    lines.push(line);
  }
  return { text: lines.reverse().join('\n'), count: lines.length };
}

/** All rows as a file, made in turns. */
export function fileOf(rows: LogRows, words: LogWords, named: boolean, slices: Slices): Promise<Blob> {
  const end = rows.count;
  const pieces: Blob[] = [];
  let piece: string[] = [];
  let at = 0;
  return new Promise(done => {
    slices.add(timeUp => {
      while (at < end && at < rows.count) {
        piece.push(rowText(rows.row(at++), words, named), '\n');
        if (piece.length >= 2 * PIECE) {
          // a blob of its own takes the text out of the heap
          pieces.push(new Blob([piece.join('')]));
          piece = [];
        }
        if (at % 64 === 0 && timeUp()) {
          return false;
        }
      }
      done(new Blob([...pieces, piece.join('')], { type: 'text/plain' }));
      return true;
    });
  });
}
