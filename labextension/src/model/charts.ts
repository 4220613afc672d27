/** A chart's columns as what a plot draws and what its title says. Pure. */
import { figure } from '../words/formats';
import type { Chart } from '../protocol/charts';
import { words } from '../words/panel';

export type Axis = 'step' | 'time';
type Column = readonly (number | null)[];
/** x, then the lines: mean, min, max of a band, or one for each rank. */
export type Lines = readonly [readonly number[], ...Column[]];

const TWO_DECADES = 100;

/** Return the key of a chart: a program may log a tag that also names a system metric. */
export function keyOf(chart: Chart): string {
  return `${chart.group}/${chart.tag}`;
}

/** Return the axis that a chart is drawn over: steps, and time where no row has a step. */
export function axisOf({ columns }: Pick<Chart, 'columns'>): Axis {
  return columns[0]!.some(step => Number.isFinite(step)) ? 'step' : 'time';
}

export function plotColumns(chart: Chart, axis: Axis): Lines {
  const { columns } = chart;
  const x = columns[axis === 'step' ? 0 : 1]!;
  const rows = [...x.keys()].filter(row => Number.isFinite(x[row]));
  if (rows.some((row, at) => at > 0 && x[row]! < x[rows[at - 1]!]!)) {
    rows.sort((a, b) => x[a]! - x[b]!);
  }
  const pick = (column: Float32Array): Column =>
    rows.map(row => (Number.isFinite(column[row]) ? column[row]! : null));
  return [rows.map(row => x[row]!), ...columns.slice(2).map(pick)];
}

/** Return the lines without values that a logarithm cannot show. */
export function positive(lines: Lines): Lines {
  const [x, ...columns] = lines;
  return [x, ...columns.map(column => column.map(value => (value !== null && value > 0 ? value : null)))];
}

export function canBeLog(lines: Lines): boolean {
  return values(lines).some(value => value > 0);
}

/** Return true above zero and over more than two decades: loss curves, learning rates. */
export function logByDefault(lines: Lines): boolean {
  const all = values(lines);
  const [least, most] = all.reduce(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [Infinity, 0],
  );
  return least > 0 && most > TWO_DECADES * least;
}

function values(lines: Lines): number[] {
  return lines
    .slice(1)
    .flat()
    .filter(value => value !== null);
}

/** A column as a plot holds it: there may be nothing at a row. */
type Sparse = ArrayLike<number | null | undefined>;

/** Return the row with a value that is nearest to a row: lines need not have a point everywhere. */
export function nearestRow(column: Sparse, row: number): number {
  for (let far = 0; far < column.length; far++) {
    const nearest = [row - far, row + far].find(at => typeof column[at] === 'number');
    if (nearest !== undefined) {
      return nearest;
    }
  }
  return row;
}

/** Return the nearest row with a value; null before the column's first value and after its last. */
export function rowAt(column: Sparse, row: number): number | null {
  const inside = nearestRow(column, 0) <= row && row <= nearestRow(column, column.length - 1);
  return inside ? nearestRow(column, row) : null;
}

/** Return `0.0612 · 0.0584 to 0.0671`; of ranks `10.4 to 12.7 · highest 98.2 on rank 2`, at any time */
export function latest({ kind, ranks, last, highest }: Chart): string {
  const known = last
    .map((value, at) => ({ value, rank: ranks[at]! }))
    .filter(({ value }) => kind === 'band' || !Number.isNaN(value));
  if (!known.length) {
    return words.points;
  }
  if (kind === 'band') {
    return withHighest(bandText(last), highest);
  }
  known.sort((a, b) => a.value - b.value);
  const [low, high] = [known[0]!, known.at(-1)!];
  const now =
    figure(low.value) === figure(high.value)
      ? figure(high.value)
      : words.to(figure(low.value), figure(high.value));
  return withHighest(now, highest);
}

function withHighest(now: string, highest: Chart['highest']): string {
  const [value, rank] = highest ?? [NaN, 0];
  return highest === null || figure(value) === now ? now : `${now} · ${words.highest(figure(value), rank)}`;
}

/** Return the mean, and the range where ranks differ. */
export function bandText([mean = null, min = null, max = null]: readonly (number | null)[]): string {
  if (mean === null) {
    return words.points;
  }
  if (min === null || max === null || figure(min) === figure(max)) {
    return figure(mean);
  }
  return `${figure(mean)} · ${words.to(figure(min), figure(max))}`;
}

/** Return charts of what any of the runs logged; `ranks` are the positions of the runs that did. */
export function overlay(runs: readonly ReadonlyMap<string, Chart>[]): ReadonlyMap<string, Chart> {
  const tags = new Map<string, Chart>();
  runs.forEach(charts => charts.forEach(chart => chart.group === 'metric' && tags.set(keyOf(chart), chart)));
  return new Map(
    [...tags].map(([key, like]) => [
      key,
      together(
        like,
        runs.map(charts => charts.get(key)),
      ),
    ]),
  );
}

function together(like: Chart, charts: readonly (Chart | undefined)[]): Chart {
  const ranks = charts.flatMap((chart, at) => (chart ? [at] : []));
  const present = ranks.map(at => charts[at]!);
  const byStep = present.some(chart => axisOf(chart) === 'step');
  const [x, ...lines] = aligned(present, byStep ? 0 : 1);
  return {
    ...like,
    kind: 'ranks',
    ranks,
    last: present.map(chart => chart.last[0] ?? NaN),
    highest: null,
    columns: [byStep ? x! : x!.map(() => NaN), x!, ...lines],
  };
}

/** Return steps (0) or times (1) of any of the charts, and the values that each has there. */
function aligned(charts: readonly Chart[], axis: 0 | 1): Float32Array[] {
  const places = charts.flatMap(({ columns }) => [...columns[axis]!]);
  const x = Float32Array.from(new Set(places)).sort();
  const rows = new Map([...x].map((place, row) => [place, row]));
  const lines = charts.map(chart => {
    const line = new Float32Array(x.length).fill(NaN);
    const values = meanOf(chart);
    chart.columns[axis]!.forEach((place, at) => (line[rows.get(place)!] = values[at]!));
    return line;
  });
  return [x, ...lines];
}

/** Return one value for each row: the mean over the ranks that have one. */
function meanOf(chart: Chart): Float32Array {
  if (chart.kind === 'band') {
    return chart.columns[2]!;
  }
  const ranks = chart.columns.slice(2);
  return Float32Array.from(chart.columns[0]!, (_, row) => {
    const values = ranks.map(column => column[row]!).filter(value => !Number.isNaN(value));
    return values.reduce((sum, value) => sum + value, 0) / values.length;
  });
}
