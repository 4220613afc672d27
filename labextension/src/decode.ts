/**
 * From the wire to the types of protocol.ts. Whatever is not as agreed makes the whole message nothing:
 * half a message would show half the truth. What is not known yet (a field of a later version) is let be.
 */
import type {
  BoardAnswer,
  Chart,
  FailureView,
  LogDelta,
  Message,
  Progress,
  RankState,
  RankView,
  RunState,
  RunView,
  Said,
  SlowView,
  StackGroup,
  StackRow,
  StallView,
  Update,
} from './protocol';

/** A binary part of a message, as the different widget managers hand it over. */
export type Buffer = ArrayBuffer | ArrayBufferView;

export type Fields = Record<string, unknown>;

export const RUN_STATES: readonly RunState[] = [
  'pending',
  'starting',
  'running',
  'stopping',
  'succeeded',
  'failed',
  'cancelled',
  'lost',
];
const RANK_STATES: readonly RankState[] = ['pending', 'running', 'succeeded', 'failed', 'ended', 'lost'];

export class Malformed extends Error {}

/** The message, or null when it is not one of ours. Never throws. */
export function decode(content: unknown, buffers: readonly Buffer[] = []): Message | null {
  try {
    const fields = object(content);
    switch (fields['kind']) {
      case 'update':
        return update(fields, buffers);
      case 'board':
        return board(fields);
      default:
        return null;
    }
  } catch (problem) {
    if (problem instanceof Malformed) {
      return null;
    }
    throw problem;
  }
}

function update(fields: Fields, buffers: readonly Buffer[]): Update {
  const deltas = list(fields['deltas']);
  const charts = list(fields['charts'] ?? []);
  return {
    kind: 'update',
    view: absent(fields['view']) ? null : view(object(fields['view'])),
    deltas: deltas.map((each, index) => delta(object(each), buffers[index])),
    completeUntil: numberOrNull(fields['complete_until']),
    charts: charts.map((each, index) => chart(object(each), buffers[deltas.length + index])),
    cell: absent(fields['cell']) ? null : text(fields['cell']),
    reading: count(fields['reading'] ?? 0),
  };
}

function board(fields: Fields): BoardAnswer {
  return { kind: 'board', url: text(fields['url'] ?? ''), problem: text(fields['problem'] ?? '') };
}

function view(fields: Fields): RunView {
  return {
    runId: text(fields['run_id']),
    label: text(fields['label']),
    state: oneOf(RUN_STATES, fields['state']),
    live: flag(fields['live']),
    reason: said(fields, 'reason'),
    elapsed: number(fields['elapsed']),
    progress: absent(fields['progress']) ? null : progress(object(fields['progress'])),
    failure: absent(fields['failure']) ? null : failure(object(fields['failure'])),
    stall: absent(fields['stall']) ? null : stall(object(fields['stall'])),
    slow: absent(fields['slow']) ? null : slow(object(fields['slow'])),
    notes: list(fields['notes'] ?? []).map(text),
    ranks: list(fields['ranks']).map(each => rank(object(each))),
  };
}

export function progress(fields: Fields): Progress {
  return {
    fraction: Math.min(1, Math.max(0, number(fields['fraction']))),
    remaining: numberOrNull(fields['remaining']),
    text: text(fields['text'] ?? ''),
  };
}

function failure(fields: Fields): FailureView {
  return {
    rank: count(fields['rank']),
    headline: said(fields, 'headline'),
    message: text(fields['message'] ?? ''),
    line: numberOrNull(fields['line']),
    file: text(fields['file'] ?? ''),
    fileLine: numberOrNull(fields['file_line'] ?? null),
    source: text(fields['source'] ?? ''),
    cause: said(fields, 'cause'),
    fix: said(fields, 'fix'),
  };
}

export function stall(fields: Fields): StallView {
  return {
    since: number(fields['since']),
    taken: numberOrNull(fields['taken']),
    text: text(fields['text'] ?? ''),
    textZh: text(fields['text_zh'] ?? ''),
    behind: text(fields['behind'] ?? ''),
    behindZh: text(fields['behind_zh'] ?? ''),
    groups: list(fields['groups']).map(each => stackGroup(object(each))),
  };
}

function stackGroup(fields: Fields): StackGroup {
  return {
    ranks: list(fields['ranks']).map(count),
    kind: oneOf(['waits', 'held', 'loads', 'problem', 'is'] as const, fields['kind']),
    what: text(fields['what'] ?? ''),
    line: numberOrNull(fields['line']),
    role: text(fields['role'] ?? ''),
    roleZh: text(fields['role_zh'] ?? ''),
    rows: list(fields['rows']).map(each => stackRow(object(each))),
    threads: list(fields['threads'] ?? []).map(rows => list(rows).map(each => stackRow(object(each)))),
  };
}

function stackRow(fields: Fields): StackRow {
  return {
    function: text(fields['function']),
    place: text(fields['place']),
    source: text(fields['source'] ?? ''),
    own: flag(fields['own'] ?? false),
    here: flag(fields['here'] ?? false),
  };
}

function slow(fields: Fields): SlowView {
  return {
    rank: count(fields['rank']),
    factor: number(fields['factor']),
    over: numberOrNull(fields['over']),
    reason: text(fields['reason'] ?? ''),
    reasonZh: text(fields['reason_zh'] ?? ''),
  };
}

function rank(fields: Fields): RankView {
  return {
    rank: count(fields['rank']),
    node: count(fields['node'] ?? 0),
    state: oneOf(RANK_STATES, fields['state']),
    device: text(fields['device'] ?? ''),
    pid: numberOrNull(fields['pid']),
    memory: numberOrNull(fields['memory']),
    memoryTotal: numberOrNull(fields['memory_total']),
    gpuMemory: numberOrNull(fields['gpu_memory']),
    gpuMemoryTotal: numberOrNull(fields['gpu_memory_total']),
    cpu: numberOrNull(fields['cpu']),
    gpu: numberOrNull(fields['gpu']),
    rate: numberOrNull(fields['rate']),
    wait: numberOrNull(fields['wait']),
    exit: said(fields, 'exit'),
    elapsed: number(fields['elapsed'] ?? 0),
    lastLine: text(fields['last_line'] ?? ''),
  };
}

function delta(fields: Fields, buffer: Buffer | undefined): LogDelta {
  const size = count(fields['count']);
  const data = bytes(buffer);
  const times = list(fields['times'] ?? []).map(pair);
  need(linesIn(data, size) === size && times.reduce((sum, [written]) => sum + written, 0) === size);
  let lines: readonly string[] | null = null;
  return {
    rank: count(fields['rank']),
    first: count(fields['first']),
    count: size,
    get lines() {
      lines ??= size ? new TextDecoder('utf-8', { ignoreBOM: true }).decode(data).split('\n') : [];
      return lines;
    },
    times,
    partial: text(fields['partial'] ?? ''),
    skipped: count(fields['skipped'] ?? 0),
  };
}

/** How many lines `data` holds; an empty one may be a line or none, as was `expected`. */
function linesIn(data: Uint8Array, expected: number): number {
  let lines = data.length || expected ? 1 : 0;
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) {
    lines++;
  }
  return lines;
}

function chart(fields: Fields, buffer: Buffer | undefined): Chart {
  const columns = count(fields['columns']);
  const rows = count(fields['rows']);
  const ranks = list(fields['ranks']).map(count);
  const kind = oneOf(['band', 'ranks'] as const, fields['kind']);
  const data = bytes(buffer);
  need(columns === (kind === 'band' ? 5 : 2 + ranks.length) && data.byteLength === rows * columns * 4);
  // copied: a float array has to begin at a multiple of four, which a part of a message need not
  const values = new Float32Array(data.slice().buffer);
  return {
    tag: text(fields['tag']),
    kind,
    group: oneOf(['metric', 'system'] as const, fields['group']),
    unit: text(fields['unit'] ?? ''),
    ranks,
    last: list(fields['last'] ?? []).map(value => numberOrNull(value) ?? NaN),
    highest: absent(fields['highest']) ? null : highest(list(fields['highest'])),
    columns: Array.from({ length: columns }, (_, at) => values.subarray(at * rows, (at + 1) * rows)),
  };
}

function highest([value, rank]: readonly unknown[]): readonly [number, number] {
  return [number(value), count(rank)];
}

function bytes(buffer: Buffer | undefined): Uint8Array {
  if (buffer === undefined) {
    throw new Malformed();
  }
  return ArrayBuffer.isView(buffer)
    ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    : new Uint8Array(buffer);
}

export function need(claim: boolean): asserts claim {
  if (!claim) {
    throw new Malformed();
  }
}

export function object(value: unknown): Fields {
  need(typeof value === 'object' && value !== null && !Array.isArray(value));
  return value as Fields;
}

export function list(value: unknown): readonly unknown[] {
  need(Array.isArray(value));
  return value;
}

function pair(value: unknown): readonly [number, number] {
  const both = list(value);
  return [count(both[0]), number(both[1])];
}

export function text(value: unknown): string {
  need(typeof value === 'string');
  return value;
}

/** A field in English, and as `…_zh` in Chinese; where that is missing, the English. */
export function said(fields: Fields, name: string): Said {
  const en = text(fields[name] ?? '');
  return { en, zh: text(fields[`${name}_zh`] ?? '') || en };
}

export function flag(value: unknown): boolean {
  need(typeof value === 'boolean');
  return value;
}

export function number(value: unknown): number {
  need(typeof value === 'number' && Number.isFinite(value));
  return value;
}

export function absent(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

export function numberOrNull(value: unknown): number | null {
  return absent(value) ? null : number(value);
}

export function count(value: unknown): number {
  need(Number.isInteger(value) && (value as number) >= 0);
  return value as number;
}

export function oneOf<Choice extends string>(choices: readonly Choice[], value: unknown): Choice {
  const found = choices.find(choice => choice === value);
  need(found !== undefined);
  return found;
}
