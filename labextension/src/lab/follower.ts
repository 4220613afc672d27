/**
 * Keeps what is known of a run up to date while somebody looks at it. Where no socket can be had, the view
 * of the ranks is asked for, now and then; the logs then are the files that can be downloaded.
 */
import { RunModel } from '../model';
import type { Client } from './client';
import { BROWSER_CLOCK, type Clock, type Stream } from './stream';

/** milliseconds */
const PERIOD = 2000;
const LONGEST_PERIOD = 20_000;

const makeModel = (): RunModel => new RunModel();

export class Follower {
  readonly model: RunModel;
  private seen = true;
  private ended = false;
  private period = PERIOD;
  private cancel: (() => void) | null = null;
  private readonly unsubscribe: () => void;

  constructor(
    private readonly service: { client: Client; stream: Stream },
    private readonly runId: string,
    private readonly clock: Clock = BROWSER_CLOCK,
  ) {
    this.model = service.stream.watch(runId, makeModel);
    this.unsubscribe = service.stream.onState(() => this.ask());
    this.ask();
  }

  /** Somebody looks, or nobody does. */
  look(seen: boolean): void {
    if (seen === this.seen || this.ended) {
      return;
    }
    this.seen = seen;
    if (seen) {
      this.service.stream.watch(this.runId, makeModel);
      this.ask();
    } else {
      this.service.stream.unwatch(this.runId, true);
    }
  }

  end(): void {
    if (this.seen) {
      this.service.stream.unwatch(this.runId);
    }
    this.ended = true;
    this.cancel?.();
    this.unsubscribe();
  }

  private ask(): void {
    this.cancel?.();
    this.cancel = null;
    if (this.service.stream.open || this.ended || !this.seen || this.model.view?.live === false) {
      this.period = PERIOD;
      return;
    }
    this.cancel = this.clock.after(this.period, () => {
      this.cancel = null;
      this.period = Math.min(1.5 * this.period, LONGEST_PERIOD);
      void this.take().finally(() => this.ask());
    });
  }

  private async take(): Promise<void> {
    try {
      const { view, cell } = await this.service.client.run(this.runId);
      this.model.receive({
        kind: 'update',
        view,
        deltas: [],
        completeUntil: null,
        charts: [],
        cell,
        reading: 0,
      });
    } catch (problem) {
      if (!(problem instanceof Error)) {
        throw problem;
      }
    }
  }
}
