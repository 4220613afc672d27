/** The lines in a message. */
import { type Buffer, bytes, count, fields, listOf, need, number, or, pair, text } from './readers';

/** New lines of one rank. A line's address is the byte of the log at which it begins; no two readers of a log differ
 * about it. */
export type LogDelta = ReturnType<typeof deltaHead> & {
  /** read when they are asked for: most of what is sent again is not needed */
  readonly lines: readonly string[];
  /** the address behind the last line; the addresses of all lines, and that one */
  readonly end: number;
  readonly edges: readonly number[];
};

export const deltaHead = fields({
  rank: count,
  /** address of the first line in `lines`, or of the one that will come next, and how many there are */
  first: count,
  count,
  /** empty where each line takes as many bytes as its text and a newline */
  edges: or(listOf(count), []),
  /** numbers of lines and their times, in order; the numbers add up to `count` */
  times: or(listOf(pair(count, number)), []),
  /** the line that still grows (a progress bar); empty for none */
  partial: or(text, ''),
  /** bytes of the log that were passed over before `first`: they do not come */
  skipped: or(count, 0),
});

export function delta(content: unknown, buffer: Buffer | undefined): LogDelta {
  const head = deltaHead(content);
  const size = head.count;
  const data = bytes(buffer);
  need(linesIn(data, size) === size && head.times.reduce((sum, [written]) => sum + written, 0) === size);
  need(!head.edges.length || head.edges.length === size + 1);
  let lines: readonly string[] | null = null;
  let edges = head.edges.length ? head.edges : null;
  return {
    ...head,
    end: edges?.at(-1) ?? head.first + (size && data.length + 1),
    get edges() {
      edges ??= edgesOf(data, head.first);
      return edges;
    },
    get lines() {
      lines ??= size ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(data).split('\n') : [];
      return lines;
    },
  };
}

/** Return the number of lines in `data`; an empty one may be a line or none, as was `expected`. */
function linesIn(data: Uint8Array, expected: number): number {
  let lines = data.length || expected ? 1 : 0;
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) {
    lines++;
  }
  return lines;
}

function edgesOf(data: Uint8Array, first: number): readonly number[] {
  const edges = [first];
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) {
    edges.push(first + at + 1);
  }
  return [...edges, first + data.length + 1];
}
