/**
 * What the kernel's side sends to the page (nbdist/panel/protocol.py writes it, tests/fixtures/protocol
 * holds samples that both sides' tests read). snake_case ends here: nothing below this file knows it.
 * Times are seconds; those of lines and points count from the moment the run was created.
 */

export type RunState =
  'pending' | 'starting' | 'running' | 'stopping' | 'succeeded' | 'failed' | 'cancelled' | 'lost';
export type RankState = 'pending' | 'running' | 'succeeded' | 'failed' | 'ended' | 'lost';

/** What the kernel's side says in both languages. */
export interface Said {
  en: string;
  zh: string;
}

/** How far a run is. `fraction` is in 0…1; `remaining` is in seconds, null while it cannot be told. */
export interface Progress {
  fraction: number;
  remaining: number | null;
  /** "epoch 3/4", "step 129/268" */
  text: string;
}

/** Bytes, percent (of one core, of one GPU), steps a second: null when unknown. Once the run has ended: the
 * most memory that the rank held, the mean of the others. */
export interface RankView {
  rank: number;
  node: number;
  state: RankState;
  /** "cpu", "gpu 1" */
  device: string;
  pid: number | null;
  memory: number | null;
  memoryTotal: number | null;
  gpuMemory: number | null;
  gpuMemoryTotal: number | null;
  cpu: number | null;
  gpu: number | null;
  rate: number | null;
  /** percent of its time that it waited for other ranks */
  wait: number | null;
  /** "exit 1", "killed by SIGKILL"; empty while it runs */
  exit: Said;
  elapsed: number;
  /** empty in runs of more than 64 ranks: the log has it */
  lastLine: string;
}

/** The first failure, once it is known. `line` is a line of the cell (1 is the magic's), or null. Where the
 * traceback goes on into a module of the user's, `file`, `fileLine` and `source` are its innermost line.
 * `message` is the exception's type and text; `cause` and `fix` are empty where the error is not known. */
export interface FailureView {
  rank: number;
  headline: Said;
  message: string;
  line: number | null;
  file: string;
  fileLine: number | null;
  source: string;
  cause: Said;
  fix: Said;
}

/** One line of a stack. `own` are those of the user's files, `here` is the innermost of them. */
export interface StackRow {
  function: string;
  /** "cell line 9", "torch/distributed", "built-in" */
  place: string;
  source: string;
  own: boolean;
  here: boolean;
}

/** Ranks with the same stack. `held`: the others wait for it. `role` are the words for what they do. */
export interface StackGroup {
  ranks: readonly number[];
  kind: 'waits' | 'held' | 'loads' | 'problem' | 'is';
  /** "time.sleep", "all_reduce"; empty when unknown */
  what: string;
  line: number | null;
  role: string;
  roleZh: string;
  rows: readonly StackRow[];
  threads: readonly (readonly StackRow[])[];
}

/**
 * A run that hangs. `since` is when something last happened, `taken` when the stacks were taken, in
 * seconds after the ranks were started.
 */
export interface StallView {
  since: number;
  taken: number | null;
  text: string;
  textZh: string;
  behind: string;
  behindZh: string;
  groups: readonly StackGroup[];
}

/** The rank that holds the others up. `over` is its own time of a step, in ms, over the others' median. */
export interface SlowView {
  rank: number;
  factor: number;
  over: number | null;
  reason: string;
  reasonZh: string;
}

export interface RunView {
  runId: string;
  label: string;
  state: RunState;
  live: boolean;
  reason: Said;
  elapsed: number;
  progress: Progress | null;
  failure: FailureView | null;
  /** there while nothing happens; the state stays as it is */
  stall: StallView | null;
  slow: SlowView | null;
  /** what is to be said of a run that has ended */
  notes: readonly string[];
  ranks: readonly RankView[];
}

/** New lines of one rank. Line numbers count from 0 in what was followed. */
export interface LogDelta {
  rank: number;
  /** number of the first line in `lines`, and how many there are */
  first: number;
  count: number;
  /** read when they are asked for: most of what is sent again is not needed */
  readonly lines: readonly string[];
  /** how many lines, written by when: in order, the counts add up to `count` */
  times: readonly (readonly [number, number])[];
  /** the line that still grows (a progress bar); empty for none */
  partial: string;
  /** bytes of the log that were passed over before `first` */
  skipped: number;
}

/**
 * One chart of `ranks`, those that have values. `band`: columns step, time, mean, min, max over ranks.
 * `ranks`: columns step, time and one for each rank, NaN where it has no value. For system metrics step is NaN.
 */
export interface Chart {
  tag: string;
  kind: 'band' | 'ranks';
  group: 'metric' | 'system';
  /** "GB", "%", "" */
  unit: string;
  ranks: readonly number[];
  columns: readonly Float32Array[];
  /** the last value of each rank, of a band their mean, min and max; NaN where there is none */
  last: readonly number[];
  /** what was used at any time, and by which rank; null for metrics */
  highest: readonly [value: number, rank: number] | null;
}

export interface Update {
  kind: 'update';
  /** null when nothing changed since the last */
  view: RunView | null;
  deltas: readonly LogDelta[];
  /** lines written up to this moment have come from every rank; null: all that there are */
  completeUntil: number | null;
  /** charts that changed; the others stay */
  charts: readonly Chart[];
  /** the program of the run, when it is sent again */
  cell: string | null;
  /** another number where lines are numbered anew: those that came before it count no more */
  reading: number;
}

/** An answer to `{kind: 'board'}`: where VisualDL shows this run, or why not. */
export interface BoardAnswer {
  kind: 'board';
  url: string;
  problem: string;
}

export type Message = Update | BoardAnswer;

/** What the page may send. The kernel can only take it when no cell keeps it busy. */
export type Request =
  | { kind: 'stop' }
  | { kind: 'board' }
  /** `placed`: the run has ended, and its panel is in a place */
  | { kind: 'pull'; placed: boolean }
  | { kind: 'stacks' }
  | { kind: 'interrupt'; rank: number };
