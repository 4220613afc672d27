/** What a monitor shows: the runs, the machine, warm ranks (nbdist/panel/overview.py). The kernel sends it in words,
 * in the page's language, while a view of it is seen. */
import { fields, flag, listOf, Malformed, number, object, or, text } from './decode';
import { pageNow } from './views/hooks';

const empty = or(text, '');
const share = or(number, null);

/** A rank, a GPU, or warm ranks; the names of the columns. */
export type Row = ReturnType<typeof row>;
const row = fields({
  rank: empty,
  device: empty,
  memory: empty,
  memoryShare: share,
  use: empty,
  useShare: share,
  rate: empty,
  samples: empty,
  mark: empty,
  state: empty,
  ill: flag,
  /** true of a GPU that nothing uses */
  free: or(flag, false),
  pid: empty,
  lastLine: empty,
});

export type MonitoredRun = ReturnType<typeof monitoredRun>;
const monitoredRun = fields({
  runId: text,
  label: text,
  live: flag,
  mark: text,
  state: text,
  ill: flag,
  about: text,
  progress: share,
  ranks: text,
  elapsed: text,
  rows: listOf(row),
});

export type Overview = ReturnType<typeof overview>;
const overview = fields({
  /** true when the kernel sends no more, until it is asked */
  paused: flag,
  time: text,
  titles: row,
  summary: text,
  ill: text,
  free: text,
  runs: listOf(monitoredRun),
  others: listOf(row),
  lines: listOf(text),
});

/** The last overview, and who is to hear of the next, or that the place of the monitor changes. */
export class MonitorFeed {
  news: Overview | null = null;
  /** when it came, in the page's seconds */
  newsAt = 0;
  /** the number of models that feed it, and the views that are seen */
  listeners = 0;
  readonly seen = new Set<object>();
  private readonly hearers = new Set<(moving: boolean) => void>();

  listen(hear: (moving: boolean) => void): () => void {
    this.hearers.add(hear);
    return () => this.hearers.delete(hear);
  }

  receive(content: unknown): void {
    try {
      const { kind } = object(content);
      if (kind === 'overview') {
        this.news = overview(content);
        this.newsAt = pageNow();
      }
      this.hearers.forEach(hear => hear(kind === 'moving'));
    } catch (problem) {
      if (!(problem instanceof Malformed)) {
        throw problem;
      }
    }
  }
}
