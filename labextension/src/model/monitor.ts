/** The news of a monitor: the runs, the machine, warm ranks (nbdist/panel/overview.py). The kernel sends it in words,
 * in the page's language, while a view of it is seen. */
import { fields, flag, listOf, Malformed, number, object, or, type Reader, text } from '../protocol/readers';
import { Emitter } from '../log/emitter';
import { pageNow } from './run_model';

const share = or(number, null);

/** Read texts by these names; what is missing is empty. */
function texts<Name extends string>(...names: Name[]): (value: unknown) => Record<Name, string> {
  const shape = Object.fromEntries(names.map(name => [name, or(text, '')])) as Record<Name, Reader<string>>;
  return fields(shape) as (value: unknown) => Record<Name, string>;
}

const stands = texts('mark', 'state', 'lastLine', 'elapsed');
const cells = texts('rank', 'device', 'memory', 'use', 'rate', 'samples', 'pid');
const measures = fields({ memoryShare: share, useShare: share, ill: flag, free: or(flag, false) });

/** A rank, a GPU, or warm ranks; the names of the columns. `ill`: it needs a look. `free`: nothing uses the GPU. */
export type Row = ReturnType<typeof row>;
const row = (value: unknown) => ({ ...stands(value), ...cells(value), ...measures(value) });

export type MonitoredRun = ReturnType<typeof monitoredRun>;
const runs = fields({
  runId: text,
  run: text,
  live: flag,
  ill: flag,
  progress: share,
  ranks: text,
  rows: listOf(row),
});
const monitoredRun = (value: unknown) => ({ ...stands(value), ...runs(value) });

export type Overview = ReturnType<typeof overview>;
const overview = fields({
  time: text,
  titles: row,
  summary: text,
  ill: text,
  free: text,
  runs: listOf(monitoredRun),
  others: listOf(row),
  lines: listOf(text),
});

/** milliseconds that a view may take to move */
const MOVE = 1000;

/** The last overview. Tells of the next, and whether the place of the monitor changes. */
export class MonitorFeed extends Emitter<[moving: boolean]> {
  news: Overview | null = null;
  /** its arrival, in the page's seconds */
  newsAt = 0;
  private readonly seen = new Set<object>();
  private told: boolean | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Take that a view is seen or not; `tell` when that any is seen has changed, of a view that moves not. */
  see(view: object, seen: boolean, tell: (seen: boolean) => void): void {
    this.seen[seen ? 'add' : 'delete'](view);
    clearTimeout(this.timer);
    const any = this.seen.size > 0;
    if (any !== this.told) {
      this.timer = setTimeout(() => tell((this.told = any)), any ? 0 : MOVE);
    }
  }

  receive(content: unknown): void {
    try {
      const { kind } = object(content);
      if (kind === 'overview') {
        this.news = overview(content);
        this.newsAt = pageNow();
      }
      this.tell(kind === 'moving');
    } catch (problem) {
      if (!(problem instanceof Malformed)) {
        throw problem;
      }
    }
  }
}
