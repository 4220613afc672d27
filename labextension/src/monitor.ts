/** What a monitor shows: the runs, the machine, warm ranks (nbdist/panel/overview.py), as the kernel sends it while
 * a view of it is seen. */
import { count, fields, flag, listOf, Malformed, number, object, or, text } from './decode';
import { runView } from './protocol';
import { pageNow } from './views/hooks';

const amount = or(number, null);

/** `size`: the number of its ranks, which come of live runs, and of one run alone. */
const moreOfRun = fields({
  session: flag,
  size: count,
  about: or(text, ''),
  ranks: listOf(fields({ samples: amount })),
});
export type MonitoredRun = ReturnType<typeof monitoredRun>;
const monitoredRun = (value: unknown) => {
  const { ranks, ...more } = moreOfRun(value);
  return { ...runView(value), ...more, samples: ranks.map(({ samples }) => samples) };
};

export type MonitoredGpu = ReturnType<typeof monitoredGpu>;
const monitoredGpu = fields({
  index: count,
  name: text,
  memory: amount,
  memoryTotal: amount,
  utilisation: amount,
  temperature: amount,
  taken: flag,
  users: listOf(fields({ text })),
});

export type Overview = ReturnType<typeof overview>;
const overview = fields({
  /** true when the kernel sends no more, until it is asked */
  paused: flag,
  /** Unix seconds */
  now: number,
  runs: listOf(monitoredRun),
  gpus: listOf(monitoredGpu),
  machine: fields({ cores: count, cpu: amount, memory: amount, memoryTotal: amount }),
  warm: fields({ ranks: count, framework: text, ready: flag, shared: number }),
  lines: listOf(text),
});

/** The last overview, and who is to hear of the next. */
export class MonitorFeed {
  news: Overview | null = null;
  /** when it came, in the page's seconds */
  newsAt = 0;
  /** the number of models that feed it */
  listeners = 0;
  private readonly hearers = new Set<() => void>();
  private readonly movers = new Set<() => void>();

  /** Call `hear` for each overview, and `move` before the place of the monitor changes. */
  listen(hear: () => void, move: () => void = () => undefined): () => void {
    this.hearers.add(hear);
    this.movers.add(move);
    return () => {
      this.hearers.delete(hear);
      this.movers.delete(move);
    };
  }

  receive(content: unknown): void {
    try {
      const { kind } = object(content);
      if (kind === 'overview') {
        this.news = overview(content);
        this.newsAt = pageNow();
        this.hearers.forEach(hear => hear());
      } else if (kind === 'moving') {
        this.movers.forEach(move => move());
      }
    } catch (problem) {
      if (!(problem instanceof Malformed)) {
        throw problem;
      }
    }
  }
}
