/** The entries of the sidebar: groups with headings, in them runs and sweeps with their runs. */
import { languageOf } from '../../words/languages';
import { isNotebook } from '../cells/run_cell';
import type { RunRow } from './client';
import { words } from '../../words/lab';

const DAY = 86_400_000;

export type Entry =
  | { kind: 'sweep'; sweep: SweepRows; open: boolean }
  | { kind: 'run'; row: RunRow; ofSweep: boolean; best: boolean };

/** Entries below a heading; `count` is the number of runs. */
interface Group {
  title: string;
  count: number;
  entries: readonly Entry[];
}

/** A sweep, and those of its runs that the page knows. */
export interface SweepRows {
  sweepId: string;
  label: string;
  rows: readonly RunRow[];
  /** true when these are only the runs that the reader looked for */
  partial: boolean;
}

/** The state of a sweep. `best`: the run with the best main metric among those that have not failed; null where its
 * name does not tell which way is better. */
export interface SweepStanding {
  points: number;
  ended: number;
  failed: number;
  state: RunRow['state'];
  best: RunRow | null;
}

/** Return the groups. `now` in milliseconds; days are the reader's; pinned runs come first, then live ones, each under a
 * heading of their own. A sweep is one entry, with its runs below if it is in `open`; null: all are, since `rows` are what the reader
 * looked for. */
export function listing(
  rows: readonly RunRow[],
  now: number,
  open: ReadonlySet<string> | null = null,
): readonly Group[] {
  const sweeps = sweepsOf(rows, open === null);
  const together = (row: RunRow): readonly RunRow[] => sweeps.get(row.sweep?.sweepId ?? '')?.rows ?? [row];
  const titleOf = (row: RunRow): string => {
    const all = together(row);
    if (all.some(({ pinned }) => pinned)) {
      return words.pinned;
    }
    return all.some(({ live }) => live)
      ? words.active
      : dayOf(Math.max(...all.map(({ created }) => created)) * 1000, now);
  };
  const waiting = new Set(sweeps.keys());
  const entriesOf = (row: RunRow): readonly Entry[] => {
    const sweep = sweeps.get(row.sweep?.sweepId ?? '');
    if (!sweep) {
      return [{ kind: 'run', row, ofSweep: false, best: false }];
    }
    if (!waiting.delete(sweep.sweepId)) {
      return [];
    }
    const isOpen = !open || open.has(sweep.sweepId);
    const best = sweep.partial ? null : standing(sweep).best;
    const points = isOpen ? sweep.rows : [];
    return [
      { kind: 'sweep', sweep, open: isOpen },
      ...points.map(each => ({ kind: 'run', row: each, ofSweep: true, best: each === best }) as const),
    ];
  };
  return [...groupedBy(rows, titleOf)].map(([title, group]) => ({
    title,
    count: group.length,
    entries: group.flatMap(entriesOf),
  }));
}

/** Return those of `rows` that a cell of the notebook at `path` shows: not of sweeps, and each the last of its cell. */
export function leftRuns(rows: readonly RunRow[], known: readonly RunRow[], path: string): readonly RunRow[] {
  return rows.filter(
    ({ notebook, cellId, sweep, created }) =>
      cellId !== '' &&
      !sweep &&
      isNotebook(notebook, path) &&
      !known.some(other => other.cellId === cellId && other.created > created),
  );
}

/** Return sweeps of several points, by their ids. */
function sweepsOf(rows: readonly RunRow[], partial: boolean): Map<string, SweepRows> {
  const several = rows.filter(({ sweep }) => sweep && sweep.points !== 1);
  return new Map(
    [...groupedBy(several, ({ sweep }) => sweep!.sweepId)].map(([sweepId, runs]) => {
      runs.sort((a, b) => a.sweep!.number - b.sweep!.number);
      return [sweepId, { sweepId, label: runs[0]!.sweep!.label, rows: runs, partial }];
    }),
  );
}

function groupedBy(rows: readonly RunRow[], keyOf: (row: RunRow) => string): Map<string, RunRow[]> {
  const groups = new Map<string, RunRow[]>();
  for (const row of rows) {
    const key = keyOf(row);
    const group = groups.get(key);
    if (group) {
      group.push(row);
    } else {
      groups.set(key, [row]);
    }
  }
  return groups;
}

/** Return the state of a sweep; a resumed point counts once, by its latest run. */
export function standing({ rows, partial }: SweepRows): SweepStanding {
  const latest = new Map<number, RunRow>();
  for (const row of rows) {
    const { number } = row.sweep!;
    if (row.created >= (latest.get(number)?.created ?? 0)) {
      latest.set(number, row);
    }
  }
  const runs = [...latest.values()];
  const isBad = ({ state }: RunRow): boolean => state === 'failed' || state === 'lost';
  const ended = runs.filter(({ live }) => !live).length;
  const failed = runs.filter(isBad).length;
  const points = Math.max(runs.length, ...runs.map(({ sweep }) => sweep!.points));
  const stopped = runs.some(({ state }) => state === 'stopped');
  const done = failed ? 'failed' : stopped ? 'stopped' : 'finished';
  // between two points, for a moment, none goes on
  const goesOn = ended < runs.length || (!partial && done === 'finished' && ended < points);
  return {
    points,
    ended,
    failed,
    state: goesOn ? 'running' : done,
    best: bestOf(runs.filter(row => !isBad(row))),
  };
}

function bestOf(runs: readonly RunRow[]): RunRow | null {
  const worth = (row: RunRow): number => (row.sweep!.higher ? 1 : -1) * row.spark!.values.at(-1)!;
  const [first, ...others] = runs.filter(
    ({ sweep, spark }) => spark && !spark.diverged && sweep!.higher !== null,
  );
  const alike = others.filter(({ spark }) => spark!.tag === first?.spark!.tag);
  return first ? alike.reduce((best, row) => (worth(row) > worth(best) ? row : best), first) : null;
}

const datesOf = (locale: string): Record<'thisYear' | 'before', Intl.DateTimeFormat> => ({
  thisYear: new Intl.DateTimeFormat(locale, { weekday: 'long', day: 'numeric', month: 'long' }),
  before: new Intl.DateTimeFormat(locale, { dateStyle: 'long' }),
});
const DATES = { en: datesOf('en'), zh: datesOf('zh-CN') };

function dayOf(time: number, now: number): string {
  const days = Math.round((midnight(now) - midnight(time)) / DAY);
  if (days <= 0) {
    return words.today;
  }
  if (days === 1) {
    return words.yesterday;
  }
  const thisYear = new Date(time).getFullYear() === new Date(now).getFullYear();
  return DATES[languageOf()][thisYear ? 'thisYear' : 'before'].format(time);
}

function midnight(time: number): number {
  return new Date(time).setHours(0, 0, 0, 0);
}

/** Return `now`, `5 min`, `3 h`, `12 d`: how long ago, short. */
export function age(seconds: number): string {
  if (seconds < 60) {
    return words.justNow;
  }
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) {
    return words.minutes(minutes);
  }
  return minutes < 24 * 60 ? words.hours(Math.floor(minutes / 60)) : words.days(Math.floor(minutes / 1440));
}
