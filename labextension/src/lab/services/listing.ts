/** The layout of the sidebar: groups with headings, in them runs and sweeps with their runs, and the names of runs
 * among others. */
import { firstWhere } from '../../log/growing';
import { languageOf } from '../../words/languages';
import { isNotebook } from '../cells/run_cell';
import type { RunRow } from './client';
import { words } from '../../words/lab';

const HEADING_PX = 28;
const ROW_PX = 52;
/** pixels drawn above and below what can be seen */
const OVERSCAN = 200;
const DAY = 86_400_000;

export type Item =
  | { kind: 'heading'; top: number; height: number; group: string; title: string; count: number }
  | { kind: 'sweep'; top: number; height: number; sweep: SweepRows; position: number; open: boolean }
  | {
      kind: 'run';
      top: number;
      height: number;
      row: RunRow;
      position: number;
      ofSweep: boolean;
      best: boolean;
    };

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

interface Listing {
  items: readonly Item[];
  height: number;
  runs: number;
}

export const GROUPINGS = ['day', 'notebook', 'name'] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** Return the items. `now` in milliseconds; days are the reader's; pinned runs come first, then live ones, each under a
 * heading of their own. A sweep is one entry, with its runs below if it is in `open`; null: all are, since `rows` are what the reader
 * looked for. */
export function listing(
  rows: readonly RunRow[],
  now: number,
  grouping: Grouping = 'day',
  open: ReadonlySet<string> | null = null,
): Listing {
  const sweeps = sweepsOf(rows, open === null);
  const together = (row: RunRow): readonly RunRow[] => sweeps.get(row.sweep?.sweepId ?? '')?.rows ?? [row];
  const titleOf = {
    day: (row: RunRow) =>
      together(row).some(({ live }) => live)
        ? words.active
        : dayOf(Math.max(...together(row).map(({ created }) => created)) * 1000, now),
    notebook: (row: RunRow) => row.notebook || words.noNotebookGroup,
    name: (row: RunRow) => (row.sweep ? row.sweep.label.replace(/-[^-]*$/, '') : row.name || row.label),
  }[grouping];
  const groups = groupedBy(rows, row =>
    together(row).some(({ pinned }) => pinned) ? words.pinned : titleOf(row),
  );
  const items: Item[] = [];
  const waiting = new Set(sweeps.keys());
  let top = 0;
  let position = 0;
  for (const [of, group] of groups) {
    const title = grouping === 'notebook' ? of.split('/').at(-1)! : of;
    items.push({ kind: 'heading', top, height: HEADING_PX, group: of, title, count: group.length });
    top += HEADING_PX;
    const add = (row: RunRow, sweep: SweepRows | null): void => {
      const best = sweep !== null && !sweep.partial && standing(sweep).best === row;
      items.push({ kind: 'run', top, height: ROW_PX, row, position: position++, ofSweep: !!sweep, best });
      top += ROW_PX;
    };
    for (const row of group) {
      const sweep = sweeps.get(row.sweep?.sweepId ?? '');
      if (!sweep) {
        add(row, null);
      } else if (waiting.delete(sweep.sweepId)) {
        const isOpen = !open || open.has(sweep.sweepId);
        items.push({ kind: 'sweep', top, height: ROW_PX, sweep, position: position++, open: isOpen });
        top += ROW_PX;
        sweep.rows.filter(() => isOpen).forEach(each => add(each, sweep));
      }
    }
  }
  return { items, height: top, runs: position };
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

/** The name of a run in a list; the letters before `from` also stand in another run's name. */
export interface ShownName {
  text: string;
  from: number;
}

/** Return the names of runs by their ids: those that panels, commands and notes have. */
export function shownNames(rows: readonly Pick<RunRow, 'runId' | 'label'>[]): ReadonlyMap<string, ShownName> {
  const texts = rows
    .map(({ runId, label }) => ({ runId, text: label }))
    .sort((a, b) => (a.text < b.text ? -1 : 1));
  return new Map(
    texts.map(({ runId, text }, at) => {
      const beside = [texts[at - 1]?.text ?? '', texts[at + 1]?.text ?? ''];
      return [runId, { text, from: Math.max(...beside.map(other => common(text, other))) }];
    }),
  );
}

/** Return the length of the common beginning of two texts. */
function common(name: string, other: string): number {
  let at = 0;
  while (at < name.length && name[at] === other[at]) {
    at += 1;
  }
  return at;
}

/** Return the items that are in view, or nearly. */
export function inView({ items }: Listing, scrolled: number, height: number): readonly Item[] {
  const below = (y: number): number => firstWhere(items.length, at => items[at]!.top + items[at]!.height > y);
  return items.slice(below(scrolled - OVERSCAN), below(scrolled + height + OVERSCAN));
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
