/** Keeps what is known of a run up to date while it is looked at, and asks for older lines where they are. */
import { type RefObject, useEffect, useMemo } from 'react';

import { RunModel } from '../../model/run_model';
import type { Client } from './client';
import type { Stream } from './stream';

/** bytes that come for one question, and bytes that are asked for before the reader scrolls to them */
const PORTION = 256 * 1024;
const AHEAD = 1024 * 1024;
/** gaps in one question: a request has a limit */
const MOST_GAPS = 512;
/** pixels above and below what can be seen that count as seen */
const NEAR = 400;

const makeModel = (): RunModel => new RunModel();

/** Follows a run while it is visible. */
export class Follower {
  readonly model: RunModel;
  private seen = true;
  private ended = false;

  constructor(
    private readonly service: { client: Client; stream: Stream },
    private readonly runId: string,
  ) {
    this.model = service.stream.watch(runId, makeModel);
    this.model.log.outputs.ask = (rank, name) => {
      const { outputs } = this.model.log;
      // an output that is not there stays the text that stands for it
      service.client.media(runId, rank, name).then(
        data => outputs.put(name, data),
        () => undefined,
      );
    };
  }

  /** Start or stop following as the run is shown or hidden. */
  setVisible(seen: boolean): void {
    if (seen !== this.seen && !this.ended) {
      this.seen = seen;
      this.service.stream.setSeen(this.runId, seen);
    }
  }

  end(): void {
    if (!this.ended) {
      this.ended = true;
      this.service.stream.unwatch(this.runId, this.seen);
    }
  }
}

/** a rank, and the addresses between which the page lacks lines */
export type Gap = readonly [rank: number, after: number, before: number];

type Pull = (gaps: readonly Gap[]) => boolean;

/** Lines that the page does not have yet: of a short log all are asked for, of a long one those that the reader
 * scrolls to. One question at a time for each rank, so that a log of a gigabyte costs what is looked at. */
export class OlderLines {
  private readonly requested = new Map<number, number>();
  private ahead = AHEAD;

  constructor(
    private readonly run: RunModel,
    private readonly pull: Pull,
  ) {}

  /** Call when something has come. */
  advance(): void {
    let left = this.ahead;
    const missing = left > 0 ? this.missing(this.run.log.ranks) : [];
    const next = missing.filter(([, after, before]) => {
      const wanted = left > 0;
      left -= wanted ? Math.min(PORTION, before - after) : 0;
      return wanted;
    });
    this.ahead = this.ask(next) ? left : this.ahead;
  }

  /** Request the missing lines that the reader looks at, of this rank or of any. */
  wanted(selected: number | null): void {
    if (this.run.log.placing) {
      return; // what has come is to stand in its place before more comes, or it never would
    }
    this.ask(this.missing(selected === null ? this.run.log.ranks : [selected]));
  }

  /** Forget all requests: after another connection they may never be answered. */
  forget(): void {
    this.requested.clear();
  }

  /** Return the last gap of each rank, unless it has been asked for; of `MOST_GAPS` at most. */
  private missing(ranks: readonly number[]): Gap[] {
    const gaps = ranks.flatMap(rank => {
      const block = [...this.run.log.rank(rank).blocks].reverse().find(({ gap }) => gap > 0);
      return block && this.requested.get(rank) !== block.first
        ? [[rank, block.first - block.gap, block.first] as const]
        : [];
    });
    return gaps.slice(0, MOST_GAPS);
  }

  /** Request the lines of these gaps; false when that is not possible now. */
  private ask(gaps: readonly Gap[]): boolean {
    const possible = gaps.length > 0 && this.pull(gaps);
    gaps.forEach(([rank, , before]) => possible && this.requested.set(rank, before));
    return possible;
  }
}

/** Ask for the lines that are missing where the reader of the log in `root` looks; `selected` as in `wanted`. */
export function useOlderLines(
  root: RefObject<HTMLElement | null>,
  runId: string,
  model: RunModel,
  stream: Stream,
  selected: number | null,
): void {
  const older = useMemo(
    () => new OlderLines(model, gaps => stream.pull(runId, gaps)),
    [model, runId, stream],
  );
  useEffect(() => {
    older.advance();
    return model.log.subscribe(() => older.advance());
  }, [older, model]);
  useEffect(() => stream.onState(() => older.forget()), [stream, older]);
  useEffect(() => {
    const log = root.current?.querySelector('[role=log]');
    const refresh = (): void => {
      const edge = log?.getBoundingClientRect();
      const gaps = log?.querySelectorAll('.nbdist-lost') ?? [];
      const seen = [...gaps].some(gap => {
        const { top, bottom } = gap.getBoundingClientRect();
        return edge && bottom > edge.top - NEAR && top < edge.bottom + NEAR;
      });
      if (seen) {
        older.wanted(selected);
      }
    };
    // what the scrolling uncovers is drawn in the next frame
    const soon = (): void => void requestAnimationFrame(() => requestAnimationFrame(refresh));
    log?.addEventListener('scroll', soon);
    const unsubscribe = model.log.subscribe(soon);
    return () => {
      log?.removeEventListener('scroll', soon);
      unsubscribe();
    };
  }, [root, model, older, selected]);
}
