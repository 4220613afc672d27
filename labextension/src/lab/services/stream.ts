/** The one socket of a page: what changes in the list of runs, and all that is new of the runs that are watched.
 * When it breaks it is opened again, later and later; each run then goes on from the line that the page has. */
import { fields, flag, Malformed, or, text } from '../../protocol/readers';
import type { RunModel } from '../../model/run_model';
import { decode, readFrame } from '../../protocol/run';
import { runNews, type RunNews } from './client';
import { words } from '../../words/lab';

/** milliseconds */
const FIRST_RETRY = 1000;
const LONGEST_RETRY = 30_000;

/** The clock of the stream; tests bring their own. */
export interface Clock {
  after(milliseconds: number, act: () => void): () => void;
}

export const BROWSER_CLOCK: Clock = {
  after: (milliseconds, act) => {
    const timer = setTimeout(act, milliseconds);
    return () => clearTimeout(timer);
  },
};

interface Watch {
  readonly model: RunModel;
  /** those that have the model, and those of them that are seen */
  holders: number;
  users: number;
  /** reason why nothing more comes */
  gone: string | null;
}

/** The fields of a frame's header about its run. */
const frameHead = fields({
  kind: text,
  runId: or(text, ''),
  problem: or(text, ''),
  /** true when it answers a `pull` */
  pulled: or(flag, false),
});

export class Stream {
  /** true when the server is being heard */
  open = false;
  private socket: WebSocket | null = null;
  private readonly watches = new Map<string, Watch>();
  private readonly newsListeners = new Set<(news: RunNews) => void>();
  private readonly stateListeners = new Set<() => void>();
  private retry = FIRST_RETRY;
  private asleep = false;
  private started = false;

  constructor(
    private readonly connect: () => WebSocket,
    private readonly clock: Clock = BROWSER_CLOCK,
  ) {}

  /** Open the socket, and open it again whenever it breaks. */
  start(): void {
    if (!this.started) {
      this.started = true;
      this.dial();
    }
  }

  /** Return the model of a run, kept up to date until `unwatch` is called as often. `make` makes an empty model: models
   * bring the code of the log, which a page does not need to start. */
  watch(runId: string, make: () => RunModel): RunModel {
    let watch = this.watches.get(runId);
    if (!watch) {
      watch = { model: make(), holders: 0, users: 0, gone: null };
      this.watches.set(runId, watch);
    }
    watch.holders += 1;
    this.start();
    this.setSeen(runId, true);
    return watch.model;
  }

  /** Go on with a watched run, or pause it, as one that holds its model is shown or hidden. */
  setSeen(runId: string, seen: boolean): void {
    const watch = this.watches.get(runId);
    if (watch && seen) {
      watch.users += 1;
      if (watch.users === 1) {
        this.sendWatch(runId, watch);
      }
    } else if (watch?.users) {
      watch.users -= 1;
      if (!watch.users) {
        this.send({ kind: 'unwatch', run_id: runId });
      }
    }
  }

  /** Stop following a run, `seen` until now or hidden. */
  unwatch(runId: string, seen = true): void {
    const watch = this.watches.get(runId);
    if (!watch) {
      return;
    }
    if (seen) {
      this.setSeen(runId, false);
    }
    watch.holders -= 1;
    if (watch.holders <= 0) {
      this.watches.delete(runId);
      watch.model.log.outputs.clear();
    }
  }

  /** Return the reason why a watched run does not come (it was removed); null while all is well. */
  problemOf(runId: string): string | null {
    return this.watches.get(runId)?.gone ?? null;
  }

  /** Request lines in these gaps, the last first; false when they cannot be requested now. */
  pull(runId: string, gaps: readonly (readonly number[])[]): boolean {
    return this.send({ kind: 'pull', run_id: runId, gaps });
  }

  /** Pause or resume as the page is hidden or shown. */
  sleep(asleep: boolean): void {
    if (asleep !== this.asleep) {
      this.asleep = asleep;
      this.send({ kind: asleep ? 'pause' : 'resume' });
    }
  }

  onRuns(listener: (news: RunNews) => void): () => void {
    this.newsListeners.add(listener);
    return () => this.newsListeners.delete(listener);
  }

  /** Call back when the server begins or ceases to be heard, or a run goes. */
  onState(listener: () => void): () => void {
    this.stateListeners.add(listener);
    return () => this.stateListeners.delete(listener);
  }

  private dial(): void {
    const socket = this.connect();
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    socket.onopen = () => {
      this.retry = FIRST_RETRY;
      this.setOpen(true);
      this.send({ kind: 'runs' });
      this.watches.forEach((watch, runId) => watch.users && this.sendWatch(runId, watch));
      if (this.asleep) {
        this.send({ kind: 'pause' });
      }
    };
    socket.onmessage = event => this.receive(event.data as unknown);
    socket.onclose = () => {
      this.socket = null;
      this.setOpen(false);
      this.clock.after(this.retry, () => this.dial());
      this.retry = Math.min(2 * this.retry, LONGEST_RETRY);
    };
  }

  private receive(data: unknown): void {
    if (!(data instanceof ArrayBuffer)) {
      return;
    }
    try {
      const { header, buffers } = readFrame(data);
      const { kind, runId, problem } = frameHead(header);
      if (kind === 'runs') {
        const news = runNews(header);
        this.newsListeners.forEach(listener => listener(news));
      } else if (kind === 'gone') {
        this.lose(runId, problem);
      } else if (kind === 'update') {
        this.update(header, buffers);
      }
    } catch (problem) {
      // half a frame shows half the truth
      if (!(problem instanceof Malformed || problem instanceof SyntaxError)) {
        throw problem;
      }
    }
  }

  private update(header: unknown, buffers: Uint8Array[]): void {
    const { runId, pulled } = frameHead(header);
    const watch = this.watches.get(runId);
    const message = decode(header, buffers);
    if (watch && message) {
      watch.model.receive(message);
    } else {
      this.lose(runId, words.notRead);
    }
    if (!pulled) {
      this.send({ kind: 'ack', run_id: runId });
    }
  }

  private lose(runId: string, problem: string): void {
    const watch = this.watches.get(runId);
    if (watch) {
      watch.gone = problem || runId;
      this.stateListeners.forEach(listener => listener());
    }
  }

  private sendWatch(runId: string, watch: Watch): void {
    const { log } = watch.model;
    const known = log.ranks
      .filter(rank => log.rank(rank).next > 0)
      .map(rank => [rank, log.rank(rank).next] as const);
    watch.gone = null;
    this.send({
      kind: 'watch',
      run_id: runId,
      from: known.length ? Object.fromEntries(known) : 'tail',
    });
  }

  private send(message: object): boolean {
    if (!this.open || !this.socket) {
      return false;
    }
    this.socket.send(JSON.stringify(message));
    return true;
  }

  private setOpen(open: boolean): void {
    if (open !== this.open) {
      this.open = open;
      this.stateListeners.forEach(listener => listener());
    }
  }
}
