/** The messages from the kernel or the server to the page (written by nbdist/feed/protocol.py, with samples for the
 * tests of both sides in tests/fixtures/protocol), and their readers. Times are seconds; those of lines and points
 * count from the creation of the run. */
import { type Chart, chart } from './charts';
import { delta, type LogDelta } from './log';
import {
  bilingual,
  type Buffer,
  bytes,
  count,
  fields,
  flag,
  listOf,
  need,
  nullIfMalformed,
  number,
  object,
  oneOf,
  or,
  text,
} from './readers';

const ENDS = ['finished', 'failed', 'stopped', 'lost'] as const;
export const runState = oneOf('pending', 'starting', 'running', 'stopping', ...ENDS);
export type RunState = ReturnType<typeof runState>;
const rankState = oneOf('pending', 'running', ...ENDS);
export type RankState = ReturnType<typeof rankState>;

/** The progress of a run. `fraction` is in 0…1; `remaining` is in seconds, null while unknown. */
export type Progress = ReturnType<typeof progress>;
export const progress = fields({
  fraction: value => Math.min(1, Math.max(0, number(value))),
  remaining: or(number, null),
  /** "epoch 3/4", "step 129/268" */
  text: or(text, ''),
});

/** Bytes, percent (of one core, of one GPU), steps a second: null when unknown. Once the run has ended: the
 * most memory that the rank held, the mean of the others. */
export type RankView = ReturnType<typeof rankView>;
const rankView = fields({
  rank: count,
  node: or(count, 0),
  state: rankState,
  /** "cpu", "gpu 1" */
  device: or(text, ''),
  pid: or(number, null),
  memory: or(number, null),
  memoryTotal: or(number, null),
  gpuMemory: or(number, null),
  gpuMemoryTotal: or(number, null),
  cpu: or(number, null),
  gpu: or(number, null),
  rate: or(number, null),
  /** percent of its time that it waited for other ranks */
  wait: or(number, null),
  /** "exit 1", "killed by SIGKILL"; "saving, 14 s" of a rank on its way out; else empty while it runs */
  exit: bilingual,
  /** a debugger holds it, where `exit` says; `values` are those of the names there */
  held: or(flag, false),
  values: or(listOf(text), []),
  elapsed: or(number, 0),
  /** empty in runs of more than 64 ranks: the log has it */
  lastLine: or(text, ''),
});

/** A sentence. */
const noteView = fields({ text: bilingual });

/** A line in `source`, whose first line is `first`. `file` names the module at `path`; both are empty for the cell. */
const callView = fields({
  file: text,
  path: or(text, ''),
  line: count,
  first: count,
  source: text,
});

/** The first failure, once it is known. `line` is a line of the cell (1 is the magic's), or null. Where the
 * traceback goes on into a module of the user's, `file`, `fileLine` and `source` are its innermost line.
 * `message` is the exception's type and text; `cause` and `fix` are empty where the error is not known. */
export type FailureView = ReturnType<typeof failureView>;
const failureView = fields({
  rank: count,
  headline: bilingual,
  message: or(text, ''),
  line: or(number, null),
  file: or(text, ''),
  fileLine: or(number, null),
  source: or(text, ''),
  cause: bilingual,
  fix: bilingual,
  /** values in the failing line and where they were set, and what is known of other ranks */
  notes: or(listOf(noteView), []),
  /** the user's lines on the way to the failure, the last of which raised it */
  calls: or(listOf(callView), []),
});

/** One line of a stack. `own` are those of the user's files, `here` is the innermost of them. */
export type StackRow = ReturnType<typeof stackRow>;
const stackRow = fields({
  function: text,
  /** "cell line 9", "torch/distributed", "built-in" */
  place: text,
  source: or(text, ''),
  own: or(flag, false),
  here: or(flag, false),
});

/** Ranks with the same stack. `held`: the others wait for it. `role` are the words for what they do. */
export type StackGroup = ReturnType<typeof stackGroup>;
const stackGroup = fields({
  ranks: listOf(count),
  kind: oneOf('waits', 'held', 'loads', 'problem', 'is'),
  /** "time.sleep", "all_reduce"; empty when unknown */
  what: or(text, ''),
  line: or(number, null),
  role: bilingual,
  rows: listOf(stackRow),
});

/** A run that hangs. `since` is when something last happened, `taken` when the stacks were taken, in seconds after
 * the ranks were started. */
export type StallView = ReturnType<typeof stallView>;
export const stallView = fields({
  since: number,
  taken: or(number, null),
  text: bilingual,
  behind: bilingual,
  groups: listOf(stackGroup),
});

/** The rank that holds the others up. `over` is its own time of a step, in ms, over the others' median. */
export type SlowView = ReturnType<typeof slowView>;
const slowView = fields({
  rank: count,
  factor: number,
  over: or(number, null),
  reason: bilingual,
});

/** Inputs from the notebook, or results of the ranks: the first values by name, and the number of further ones.
 * `ranks`: the ranks that returned it, empty for rank 0. */
const given = fields({
  values: listOf(fields({ name: text, about: bilingual, ranks: or(text, '') })),
  more: or(count, 0),
});

const NOTHING: ReturnType<typeof given> = { values: [], more: 0 };

/** The parts of a training's time, in order, as shares of 1; with a GPU some are not known. */
export const TIME_PARTS = ['data', 'forward', 'backward', 'wait', 'optimizer', 'other'] as const;
export type TimeParts = Readonly<Record<(typeof TIME_PARTS)[number], number>>;
const share = or(number, 0);

/** The doings of a rank, in the order of the digits of a line. */
export const PROFILE_PARTS = ['compute', 'communication', 'overlapped', 'idle'] as const;

/** `line`: a digit for each of many moments; empty where there is a problem. */
const profiledRank = fields({
  rank: count,
  parts: fields({ compute: share, communication: share, overlapped: share, idle: share }),
  line: text,
  problem: bilingual,
});

export type RunView = ReturnType<typeof runView>;
export const runView = fields({
  runId: text,
  label: text,
  state: runState,
  live: flag,
  /** true when it is a session that waits for a cell */
  idle: or(flag, false),
  reason: bilingual,
  /** name of the run that this one resumes; empty for none */
  resumed: or(text, ''),
  /** the checkpoint from which a run that has not come to its end can be resumed: "step 60" */
  checkpoint: or(text, ''),
  /** the import that goes on before the first line: "Importing torch, 6 s" */
  importing: bilingual,
  elapsed: number,
  progress: or(progress, null),
  failure: or(failureView, null),
  /** there while nothing happens; the state stays as it is */
  stall: or(stallView, null),
  slow: or(slowView, null),
  /** a training's facts, what limits it, and how its time divides: `onHost` false where a GPU computes */
  training: or(
    fields({
      text: bilingual,
      limit: bilingual,
      onHost: flag,
      parts: fields({
        data: share,
        forward: share,
        backward: share,
        wait: share,
        optimizer: share,
        other: share,
      }),
    }),
    null,
  ),
  /** the ranks during some seconds; `trace`: the path of all of it */
  profile: or(fields({ time: number, seconds: number, trace: text, ranks: listOf(profiledRank) }), null),
  /** mistakes of the program that fail no rank */
  warnings: or(listOf(noteView), []),
  /** the notes on a run that has ended, its warnings among them */
  notes: or(listOf(text), []),
  inputs: or(given, NOTHING),
  results: or(given, NOTHING),
  ranks: listOf(rankView),
});

/** A file of an output, by the name that the log's line has of it. */
export interface Media {
  name: string;
  data: Uint8Array;
}

export type Update = ReturnType<typeof updateHead> & {
  kind: 'update';
  deltas: readonly LogDelta[];
  /** charts that changed; the others stay */
  charts: readonly Chart[];
  media: readonly Media[];
};

const updateHead = fields({
  /** null when nothing changed since the last */
  view: or(runView, null),
  /** lines written up to this moment have come from every rank; null: all that there are */
  completeUntil: or(number, null),
  /** number of metrics without a chart; null where it is not sent */
  leftOut: or(count, null),
  /** the program of the run, when it is sent again */
  cell: or(text, null),
});

/** An answer to `{kind: 'board'}`: where VisualDL shows this run, or why not. */
export type BoardAnswer = ReturnType<typeof boardAnswer>;
const boardAnswer = fields({ kind: oneOf('board'), url: or(text, ''), problem: or(text, '') });

/** An answer to `{kind: 'report'}`: the run as one text; empty where it cannot be read. */
export type ReportAnswer = ReturnType<typeof reportAnswer>;
const reportAnswer = fields({ kind: oneOf('report'), text: or(text, '') });

export type Answer = BoardAnswer | ReportAnswer;
export type Message = Update | Answer;

/** A request of the page. The kernel only receives it while no cell runs. */
export type Request =
  /** `run`: of a monitor's */
  | { kind: 'stop'; run?: string }
  /** a monitor is seen, or not */
  | { kind: 'seen'; seen: boolean; language: string }
  | { kind: 'board' }
  | { kind: 'report'; language: string }
  /** `placed`: the run has ended, and its panel is in a place */
  | { kind: 'pull'; placed: boolean }
  | { kind: 'stacks' }
  | { kind: 'media'; rank: number; name: string }
  | { kind: 'interrupt'; rank: number };

/** The answers of held ranks to a command, each once. */
export type DebugAnswers = NonNullable<ReturnType<typeof debugAnswers>>;
const answers = listOf(fields({ ranks: text, text }));
export const debugAnswers = (given: unknown) => nullIfMalformed(() => answers(object(given)['answers']));

const bufferLengths = fields({ buffers: or(listOf(count), []) });

/** Split a frame: the length of the header, the header, the buffers whose lengths the header has. */
export function readFrame(frame: ArrayBuffer): { header: unknown; buffers: Uint8Array[] } {
  const size = frame.byteLength >= 4 ? new DataView(frame).getUint32(0, true) : Infinity;
  need(4 + size <= frame.byteLength);
  const header: unknown = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 4, size)));
  let at = 4 + size;
  const buffers = bufferLengths(header).buffers.map(length => {
    const from = at;
    at += length;
    need(at <= frame.byteLength);
    return new Uint8Array(frame, from, length);
  });
  return { header, buffers };
}

/** Return the view in the server's answer about a run; null for none. */
export function viewOf(answer: unknown): RunView | null {
  return nullIfMalformed(() => runView(object(answer)['view']));
}

/** Return the message, or null when it is not one of ours. Never throws. */
export function decode(content: unknown, buffers: readonly Buffer[] = []): Message | null {
  return nullIfMalformed(() => {
    switch (object(content)['kind']) {
      case 'update':
        return update(content, buffers);
      case 'board':
        return boardAnswer(content);
      case 'report':
        return reportAnswer(content);
      default:
        return null;
    }
  });
}

function update(content: unknown, buffers: readonly Buffer[]): Update {
  const parts = object(content);
  const deltas = listOf(object)(parts['deltas']);
  const charts = or(listOf(object), [])(parts['charts'], parts, '');
  const media = or(listOf(text), [])(parts['media'], parts, '');
  const files = buffers.slice(deltas.length + charts.length);
  return {
    kind: 'update',
    ...updateHead(content),
    deltas: deltas.map((each, index) => delta(each, buffers[index])),
    charts: charts.map((each, index) => chart(each, buffers[deltas.length + index])),
    media: media.map((name, index) => ({ name, data: bytes(files[index]) })),
  };
}
