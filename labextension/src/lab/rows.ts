/**
 * What the Jupyter server's side sends of runs, machines and options (nbdist/server/openapi.yaml has it in
 * words). Whatever is not as agreed throws `Malformed`.
 */
import { count, fields, flag, listOf, number, or, said, text } from '../decode';
import { progress, runState } from '../protocol';

/** A run in a list. Times are Unix seconds. */
export type RunRow = ReturnType<typeof runRow>;
export const runRow = fields({
  runId: text,
  name: or(text, ''),
  /** the name and the end of the id: `lenet-k3f9` */
  label: text,
  state: runState,
  live: flag,
  stalled: or(flag, false),
  reason: said,
  /** whether it was stopped because a person or a program asked for it */
  stoppedAsAsked: or(flag, false),
  created: number,
  started: or(number, null),
  ended: or(number, null),
  worldSize: count,
  devices: or(listOf(text), []),
  /** as the kernel knew it; empty where it did not */
  notebook: or(text, ''),
  /** the cell's id in the notebook; empty where the kernel did not know it */
  cellId: or(text, ''),
  progress: or(progress, null),
  /** the first failure, or where the main metric stands */
  headline: said,
  spark: or(fields({ tag: text, values: listOf(number) }), null),
  detached: or(flag, false),
});

export type RunPage = ReturnType<typeof runPage>;
export const runPage = fields({
  runs: listOf(runRow),
  /** what to ask for after this page */
  next: or(text, null),
  live: or(count, 0),
});

/** A part of the list that the stream tells of. */
export type RunNews = ReturnType<typeof runNews>;
export const runNews = fields({
  runs: listOf(runRow),
  removed: or(listOf(text), []),
  live: or(count, 0),
  /** true for a whole first page */
  first: or(flag, false),
});

/** A program that uses a GPU: "python (12)", or the run whose rank it is. */
const holder = fields({ pid: count, name: or(text, ''), runId: or(text, null) });

export type Gpu = ReturnType<typeof gpu>;
const gpu = fields({
  index: count,
  name: or(text, ''),
  memory: or(number, null),
  memoryTotal: or(number, null),
  utilisation: or(number, null),
  holders: or(listOf(holder), []),
});

export type Devices = ReturnType<typeof devices>;
export const devices = fields({ gpus: listOf(gpu) });

/** An option of `%%distributed`. */
export type Option = ReturnType<typeof option>;
const option = fields({
  flags: listOf(text),
  metavar: or(text, ''),
  help: value => {
    const { en, zh } = help(value);
    return { en, zh: zh ?? en };
  },
  choices: or(listOf(text), []),
  many: or(flag, false),
});
const help = fields({ en: text, zh: or(text, null) });

export const options = fields({ options: listOf(option) });
