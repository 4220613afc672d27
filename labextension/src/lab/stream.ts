/**
 * The one socket of a page: what changes in the list of runs, and all that is new of the runs that are
 * watched. When it breaks it is opened again, later and later; each run then goes on from the line that
 * the page has.
 */
import { Malformed, object, text } from '../decode';
import type { RunModel } from '../model';
import { decode } from '../protocol';
import { type RunNews, runNews } from './rows';

/** milliseconds */
const FIRST_RETRY = 1000;
const LONGEST_RETRY = 30_000;

/** Where the stream takes its time from. */
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
  users: number;
  /** why nothing more comes */
  gone: string | null;
}

/** A frame: the length of the header, the header, the buffers whose lengths the header says. */
export function readFrame(frame: ArrayBuffer): { header: Record<string, unknown>; buffers: Uint8Array[] } {
  const size = frame.byteLength >= 4 ? new DataView(frame).getUint32(0, true) : Infinity;
  if (4 + size > frame.byteLength) {
    throw new Malformed();
  }
  const header = object(JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 4, size))));
  let at = 4 + size;
  const lengths = Array.isArray(header['buffers']) ? (header['buffers'] as unknown[]) : [];
  const buffers = lengths.map(length => {
    const from = at;
    at += Number(length);
    if (!(at <= frame.byteLength)) {
      throw new Malformed();
    }
    return new Uint8Array(frame, from, at - from);
  });
  return { header, buffers };
}

const numbers = (list: unknown): number[] => (Array.isArray(list) ? list.map(Number) : []);
const pairs = (list: unknown): [number, number][] =>
  Array.isArray(list) ? list.map(pair => numbers(pair) as [number, number]) : [];

export class Stream {
  /** whether the server is being heard */
  open = false;
  private socket: WebSocket | null = null;
  private readonly watches = new Map<string, Watch>();
  private readonly newsListeners = new Set<(news: RunNews) => void>();
  private readonly stateListeners = new Set<() => void>();
  private retry = FIRST_RETRY;
  private cancelRetry: (() => void) | null = null;
  private asleep = false;
  private wanted = false;

  constructor(
    private readonly connect: () => WebSocket,
    private readonly clock: Clock = BROWSER_CLOCK,
  ) {}

  /** Open the socket, and keep it open until `end`. */
  start(): void {
    if (!this.wanted) {
      this.wanted = true;
      this.dial();
    }
  }

  end(): void {
    this.wanted = false;
    this.cancelRetry?.();
    this.cancelRetry = null;
    this.socket?.close();
    this.socket = null;
    this.setOpen(false);
  }

  /** What is known of a run, kept up to date until `unwatch` is called as often. `make` makes a model that
   * knows nothing yet: models bring the code of the log, which a page does not need to come up. */
  watch(runId: string, make: () => RunModel): RunModel {
    let watch = this.watches.get(runId);
    if (!watch) {
      watch = { model: make(), users: 0, gone: null };
      this.watches.set(runId, watch);
    }
    watch.users += 1;
    if (watch.users === 1) {
      this.sendWatch(runId, watch);
    }
    this.start();
    return watch.model;
  }

  /** Nobody looks at it; what has come of it is kept while `keep` says that somebody may come back. */
  unwatch(runId: string, keep = false): void {
    const watch = this.watches.get(runId);
    if (!watch) {
      return;
    }
    watch.users = Math.max(0, watch.users - 1);
    if (watch.users === 0) {
      this.send({ kind: 'unwatch', run_id: runId });
      if (!keep) {
        this.watches.delete(runId);
      }
    }
  }

  /** Why a watched run does not come (it was removed), null while all is well. */
  problemOf(runId: string): string | null {
    return this.watches.get(runId)?.gone ?? null;
  }

  /** Ask for older lines; false when they cannot be asked for now. */
  pull(runId: string, rank: number, first: number, count: number): boolean {
    return this.send({ kind: 'pull', run_id: runId, rank, first, count });
  }

  /** Nobody can see the page, or somebody can again. */
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

  /** Calls back when the server begins or ceases to be heard, or a run goes. */
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
      if (this.socket === socket) {
        this.socket = null;
        this.setOpen(false);
        this.later();
      }
    };
  }

  private later(): void {
    if (this.wanted && !this.cancelRetry) {
      this.cancelRetry = this.clock.after(this.retry, () => {
        this.cancelRetry = null;
        this.dial();
      });
      this.retry = Math.min(2 * this.retry, LONGEST_RETRY);
    }
  }

  private receive(data: unknown): void {
    if (!(data instanceof ArrayBuffer)) {
      return;
    }
    try {
      const { header, buffers } = readFrame(data);
      if (header['kind'] === 'runs') {
        const news = runNews(header);
        this.newsListeners.forEach(listener => listener(news));
      } else if (header['kind'] === 'gone') {
        this.lose(text(header['run_id']), text(header['problem'] ?? ''));
      } else if (header['kind'] === 'update') {
        this.update(text(header['run_id']), header, buffers);
      }
    } catch (problem) {
      // half a frame shows half the truth
      if (!(problem instanceof Malformed || problem instanceof SyntaxError)) {
        throw problem;
      }
    }
  }

  private update(runId: string, header: Record<string, unknown>, buffers: Uint8Array[]): void {
    const watch = this.watches.get(runId);
    const message = decode(header, buffers);
    if (watch && message) {
      pairs(header['moved']).forEach(([rank, by]) => watch.model.log.renumber(rank, by));
      watch.model.receive(message);
      numbers(header['provisional']).forEach(rank => (watch.model.log.rank(rank).provisional = true));
    }
    if (header['pulled'] !== true) {
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
    if (log.provisional) {
      // numbers of another connection: nobody will say what they become
      log.forget();
    }
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
