/**
 * What the Jupyter server's side sends of runs, machines and options (nbdist/server/openapi.yaml has it in
 * words). snake_case ends here. Whatever is not as agreed throws `Malformed`.
 */
import {
  absent,
  count,
  flag,
  list,
  number,
  numberOrNull,
  object,
  oneOf,
  progress,
  RUN_STATES,
  text,
  type Fields,
  said,
} from '../decode';
import type { Progress, RunState, Said } from '../protocol';

/** A run in a list. Times are Unix seconds. */
export interface RunRow {
  runId: string;
  name: string;
  /** the name and the end of the id: `lenet-k3f9` */
  label: string;
  state: RunState;
  live: boolean;
  stalled: boolean;
  reason: Said;
  /** whether it was stopped because a person or a program asked for it */
  stoppedAsAsked: boolean;
  created: number;
  started: number | null;
  ended: number | null;
  worldSize: number;
  devices: readonly string[];
  /** as the kernel knew it; empty where it did not */
  notebook: string;
  /** the cell's id in the notebook; empty where the kernel did not know it */
  cellId: string;
  progress: Progress | null;
  /** the first failure, or where the main metric stands */
  headline: Said;
  spark: { tag: string; values: readonly number[] } | null;
  detached: boolean;
}

export interface RunPage {
  runs: readonly RunRow[];
  /** what to ask for after this page */
  next: string | null;
  live: number;
}

/** A part of the list that the stream tells of. */
export interface RunNews {
  runs: readonly RunRow[];
  removed: readonly string[];
  live: number;
  /** true for a whole first page */
  first: boolean;
}

export interface Gpu {
  index: number;
  name: string;
  memory: number | null;
  memoryTotal: number | null;
  utilisation: number | null;
  /** programs that use it: "python (12)", or the run whose rank it is */
  holders: readonly { pid: number; name: string; runId: string | null }[];
}

export interface Devices {
  gpus: readonly Gpu[];
  cores: number;
}

/** An option of `%%distributed`. */
export interface Option {
  flags: readonly string[];
  metavar: string;
  help: { en: string; zh: string };
  choices: readonly string[];
  many: boolean;
}

export function runRow(value: unknown): RunRow {
  const fields = object(value);
  return {
    runId: text(fields['run_id']),
    name: text(fields['name'] ?? ''),
    label: text(fields['label']),
    state: oneOf(RUN_STATES, fields['state']),
    live: flag(fields['live']),
    stalled: flag(fields['stalled'] ?? false),
    reason: said(fields, 'reason'),
    stoppedAsAsked: flag(fields['stopped_as_asked'] ?? false),
    created: number(fields['created']),
    started: numberOrNull(fields['started']),
    ended: numberOrNull(fields['ended']),
    worldSize: count(fields['world_size']),
    devices: list(fields['devices'] ?? []).map(text),
    notebook: text(fields['notebook'] ?? ''),
    cellId: text(fields['cell_id'] ?? ''),
    progress: absent(fields['progress']) ? null : progress(object(fields['progress'])),
    headline: said(fields, 'headline'),
    spark: absent(fields['spark']) ? null : spark(object(fields['spark'])),
    detached: flag(fields['detached'] ?? false),
  };
}

function spark(fields: Fields): RunRow['spark'] {
  return { tag: text(fields['tag']), values: list(fields['values']).map(number) };
}

export function runPage(value: unknown): RunPage {
  const fields = object(value);
  return {
    runs: list(fields['runs']).map(runRow),
    next: absent(fields['next']) ? null : text(fields['next']),
    live: count(fields['live'] ?? 0),
  };
}

export function runNews(value: unknown): RunNews {
  const fields = object(value);
  return {
    runs: list(fields['runs']).map(runRow),
    removed: list(fields['removed'] ?? []).map(text),
    live: count(fields['live'] ?? 0),
    first: flag(fields['first'] ?? false),
  };
}

export function devices(value: unknown): Devices {
  const fields = object(value);
  return {
    gpus: list(fields['gpus']).map(each => gpu(object(each))),
    cores: count(object(fields['machine'] ?? {})['cores'] ?? 1),
  };
}

function gpu(fields: Fields): Gpu {
  return {
    index: count(fields['index']),
    name: text(fields['name'] ?? ''),
    memory: numberOrNull(fields['memory']),
    memoryTotal: numberOrNull(fields['memory_total']),
    utilisation: numberOrNull(fields['utilisation']),
    holders: list(fields['holders'] ?? []).map(each => {
      const holder = object(each);
      const run = holder['run_id'];
      return {
        pid: count(holder['pid']),
        name: text(holder['name'] ?? ''),
        runId: absent(run) ? null : text(run),
      };
    }),
  };
}

export function options(value: unknown): readonly Option[] {
  return list(object(value)['options']).map(each => {
    const fields = object(each);
    const help = object(fields['help']);
    return {
      flags: list(fields['flags']).map(text),
      metavar: text(fields['metavar'] ?? ''),
      help: { en: text(help['en']), zh: text(help['zh'] ?? help['en']) },
      choices: list(fields['choices'] ?? []).map(text),
      many: flag(fields['many'] ?? false),
    };
  });
}
