/** The curves of several runs in one chart: each run is drawn as a rank is in a panel. */
import { keyOf } from '../model';
import type { Chart } from '../protocol';

/** Charts of what more than none of the runs logged; `ranks` are the positions of the runs. */
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
  const numbers = charts.flatMap((chart, at) => (chart ? [at] : []));
  const rows = new Map<number, { time: number; values: number[] }>();
  for (const at of numbers) {
    const chart = charts[at]!;
    const [steps, times] = chart.columns;
    const values = meanOf(chart);
    steps?.forEach((step, row) => {
      const found = rows.get(step) ?? { time: times![row]!, values: numbers.map(() => NaN) };
      found.values[numbers.indexOf(at)] = values[row]!;
      rows.set(step, found);
    });
  }
  const ordered = [...rows].sort(([one], [other]) => one - other);
  return {
    ...like,
    kind: 'ranks',
    ranks: numbers,
    last: numbers.map(at => charts[at]!.last[0] ?? NaN),
    highest: null,
    columns: [
      Float32Array.from(ordered, ([step]) => step),
      Float32Array.from(ordered, ([, row]) => row.time),
      ...numbers.map((_, column) => Float32Array.from(ordered, ([, row]) => row.values[column]!)),
    ],
  };
}

/** One value for each row: the mean over the ranks that have one. */
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
