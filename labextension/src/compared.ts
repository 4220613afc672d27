/** Runs beside each other, as the server and the kernel send them. */
import { count, fields, flag, listOf, need, number, or, text } from './decode';
import { runState } from './protocol';

/** What stands in a table of runs; "nan", "inf" and "-inf" are texts. */
export type Value = string | number | boolean | null;
const value = (given: unknown): Value => {
  need(
    given === null || typeof given === 'string' || typeof given === 'number' || typeof given === 'boolean',
  );
  return given;
};

/** One property of all runs, in their order. */
export type ComparedRow = ReturnType<typeof comparedRow>;
const comparedRow = fields({
  group: text,
  name: text,
  values: listOf(value),
  differs: flag,
  /** where the best values of a metric were */
  steps: or(listOf(or(count, null)), []),
});

/** Several runs beside each other. */
export type Compared = ReturnType<typeof compared>;
export const compared = fields({
  runs: listOf(
    fields({ runId: text, name: or(text, ''), label: text, letter: text, state: runState, live: flag }),
  ),
  /** where the metrics of the group "at" are taken */
  step: or(count, null),
  rows: listOf(comparedRow),
  /** what the programs call their hyperparameters */
  untrusted: fields({ rows: listOf(comparedRow) }),
  /** of each run, when they were asked for */
  curves: or(
    listOf(
      listOf(
        fields({
          tag: text,
          steps: listOf(number),
          times: listOf(number),
          values: listOf(or(number, NaN)),
        }),
      ),
    ),
    [],
  ),
  /** how the programs differ from the first; null where one is not known any more */
  diffs: or(listOf(fields({ runId: text, lines: or(listOf(text), null) })), []),
});

/** How a sweep stands, and its points beside each other. */
export type SweepNews = Compared & ReturnType<typeof standing>;
const standing = fields({
  sweepId: text,
  label: text,
  state: runState,
  live: flag,
  /** why it ended early */
  reason: or(text, ''),
  counts: fields({ points: count, ended: count, failed: count, running: count, waiting: count }),
  /** the column that the points are sorted by at first */
  sort: or(fields({ group: text, name: text, descending: flag }), null),
  /** the points in that order, but for those that have failed, which come last */
  order: listOf(count),
});

export function sweepNews(given: unknown): SweepNews {
  return { ...compared(given), ...standing(given) };
}
