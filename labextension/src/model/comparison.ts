/** Several runs beside each other: columns, their values and order, and the curves. */
import { keyOf } from './charts';
import { bilingual, count, fields, flag, listOf, need, number, or, text } from '../protocol/readers';
import { clock, figure, percent } from '../words/formats';
import { type RunState, runState, TIME_PARTS, type TimeParts } from '../protocol/run';
import { type Chart } from '../protocol/charts';
import { words } from '../words/panel';

/** A value in a table of runs; "nan", "inf" and "-inf" are texts. */
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
  /** steps of the best values of a metric */
  steps: or(listOf(or(count, null)), []),
});

/** Several runs beside each other. */
export type Compared = ReturnType<typeof compared>;
export const compared = fields({
  runs: listOf(
    fields({ runId: text, name: or(text, ''), label: text, letter: text, state: runState, live: flag }),
  ),
  /** step of the metrics of the group "at" */
  step: or(count, null),
  rows: listOf(comparedRow),
  /** hyperparameters as the programs name them */
  untrusted: fields({ rows: listOf(comparedRow) }),
  /** curves of each run, when requested */
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
  /** the run with the best main metric, and those whose main metric has diverged */
  best: or(count, null),
  diverged: or(listOf(count), [] as readonly number[]),
  /** changes of the training in runs with more ranks, with lines of code that undo them */
  changed: or(
    listOf(
      fields({
        runId: text,
        against: text,
        changes: listOf(fields({ text: bilingual, fixes: listOf(text) })),
      }),
    ),
    [],
  ),
  /** differences of the programs from the first; null where one is unknown */
  diffs: or(listOf(fields({ runId: text, lines: or(listOf(text), null) })), []),
});

/** The state of a sweep, and its points beside each other. */
export type SweepNews = Compared & ReturnType<typeof standing>;
const standing = fields({
  sweepId: text,
  label: text,
  state: runState,
  live: flag,
  /** reason for an early end */
  reason: or(text, ''),
  counts: fields({ points: count, ended: count, failed: count, running: count, waiting: count }),
  /** the column that the points are sorted by at first */
  sort: or(fields({ group: text, name: text, descending: flag }), null),
  /** the points in that order, but for those that have failed, which come last */
  order: listOf(count),
  /** the points of a scale: a table with its titles, and what it means */
  scale: or(fields({ table: listOf(listOf(text)), sentence: or(text, '') }), null),
});

export function sweepNews(given: unknown): SweepNews {
  return { ...compared(given), ...standing(given) };
}

/** Groups whose rows are named by codes, which the page has words for. */
const CODED = new Set(['run', 'code', 'machine', 'time', 'training']);
const METRICS = new Set(['last', 'best', 'at']);

/** Columns that are shown: of these groups so many, and so many in all. */
const FIRST: Readonly<Record<string, number>> = { last: 4, best: 2, at: 2 };
const MOST = 16;

/** Curves that are drawn at first. */
export const DRAWN = 16;

/** Return the columns in order: values of the sweep and metrics, hyperparameters, then user and machine. */
export function comparisonColumns({ rows, untrusted }: Compared): readonly ComparedRow[] {
  const outcome = ({ group }: ComparedRow): boolean =>
    group === 'run' || group === 'sweep' || METRICS.has(group);
  return [...rows.filter(outcome), ...untrusted.rows, ...rows.filter(row => !outcome(row))];
}

export function columnKey({ group, name }: Pick<ComparedRow, 'group' | 'name'>): string {
  return `${group}/${name}`;
}

/** Return the columns that are shown: those in which the runs differ. */
export function firstColumns(columns: readonly ComparedRow[]): readonly ComparedRow[] {
  const differing = columns.filter(({ differs }) => differs);
  return differing
    .filter((column, at) => {
      const before = differing.slice(0, at).filter(({ group }) => group === column.group);
      return before.length < (FIRST[column.group] ?? MOST);
    })
    .slice(0, MOST);
}

export function columnName({ group, name }: ComparedRow): string {
  const { columns } = words;
  return CODED.has(group) ? (columns[name as keyof typeof columns] ?? name) : name;
}

export function groupName({ group }: ComparedRow, step: number | null): string {
  const { groups, atStep } = words;
  return group === 'at' ? atStep(step ?? 0) : (groups[group as keyof typeof groups] ?? group);
}

export function valueText(column: ComparedRow, run: number): string {
  const value = column.values[run] ?? null;
  if (value === null || value === '') {
    return '–';
  }
  if (typeof value === 'boolean') {
    return value ? words.yes : words.no;
  }
  const { group, name } = column;
  if (group === 'run' && typeof value === 'number') {
    return clock(value);
  }
  if (group === 'run' && name === 'state') {
    return words.run[value as RunState];
  }
  if (typeof value === 'string') {
    return value;
  }
  return group === 'time'
    ? percent(value)
    : METRICS.has(group) || name === '--memory'
      ? figure(value)
      : String(value);
}

/** Return how the time of a run's training divides; null for one that does not train. */
export function timeOf({ rows }: Compared, run: number): { parts: TimeParts; onHost: boolean } | null {
  const shares = TIME_PARTS.map(part => {
    const row = rows.find(({ group, name }) => group === 'time' && name === part);
    return [part, Number(row?.values[run] ?? 0) / 100] as const;
  });
  const parts = Object.fromEntries(shares) as TimeParts;
  return parts.other + parts.backward > 0 ? { parts, onHost: parts.backward > 0 } : null;
}

/** Return the numbers of the runs in an order; those without a value are last either way. */
export function sorted(column: ComparedRow | undefined, count: number, descending: boolean): number[] {
  const runs = Array.from({ length: count }, (_, run) => run);
  if (!column) {
    return runs;
  }
  const isMissing = (value: Value): boolean => value === null || value === '' || value === 'nan';
  return runs.sort((first, second) => {
    const [a, b] = [column.values[first] ?? null, column.values[second] ?? null];
    if (isMissing(a) || isMissing(b)) {
      return Number(isMissing(a)) - Number(isMissing(b));
    }
    const apart = Number(a) - Number(b);
    const order = Number.isNaN(apart) ? String(a).localeCompare(String(b)) : apart;
    return descending ? -order : order;
  });
}

/** Return the charts of each run; none for a run that is not drawn. */
export function chartsOf({ curves }: Compared, drawn: ReadonlySet<number>): ReadonlyMap<string, Chart>[] {
  return curves.map((each, run) => new Map(drawn.has(run) ? each.map(curve => entryOf(curve)) : []));
}

function entryOf({ tag, steps, times, values }: Compared['curves'][number][number]): [string, Chart] {
  const chart: Chart = {
    tag,
    kind: 'ranks',
    group: 'metric',
    unit: '',
    ranks: [0],
    last: [values.at(-1) ?? NaN],
    highest: null,
    columns: [steps, times, values].map(each => Float32Array.from(each)),
  };
  return [keyOf(chart), chart];
}
