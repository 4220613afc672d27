/** The curves in a message. */
import { type Buffer, bytes, count, fields, listOf, need, number, oneOf, or, pair, text } from './readers';

/** One chart of `ranks`, those that have values. `band`: columns step, time, mean, min, max over ranks. `ranks`:
 * columns step, time and one for each rank, NaN where it has no value. For system metrics step is NaN. */
export type Chart = ReturnType<typeof chartHead> & {
  columns: readonly Float32Array[];
};

export const chartHead = fields({
  tag: text,
  kind: oneOf('band', 'ranks'),
  group: oneOf('metric', 'system'),
  /** "GB", "%", "" */
  unit: or(text, ''),
  ranks: listOf(count),
  /** the last value of each rank, of a band their mean, min and max; NaN where there is none */
  last: or(listOf(or(number, NaN)), []),
  /** the highest value at any time, and its rank; null for metrics */
  highest: or(pair(number, count), null),
});

export const chartSize = fields({ columns: count, rows: count });

export function chart(content: unknown, buffer: Buffer | undefined): Chart {
  const head = chartHead(content);
  const { columns, rows } = chartSize(content);
  const data = bytes(buffer);
  need(
    columns === (head.kind === 'band' ? 5 : 2 + head.ranks.length) && data.byteLength === rows * columns * 4,
  );
  // copied: a float array has to begin at a multiple of four, which a part of a message need not
  const values = new Float32Array(data.slice().buffer);
  return {
    ...head,
    columns: Array.from({ length: columns }, (_, at) => values.subarray(at * rows, (at + 1) * rows)),
  };
}
