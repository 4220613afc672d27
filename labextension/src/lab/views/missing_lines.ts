/** Lines that are missing where the reader looks are asked for. */
import { useEffect, useMemo } from 'react';

import type { RunModel } from '../../model';
import { OlderLines } from '../older_lines';
import type { IRunService } from '../tokens';

/** pixels above and below what can be seen that count as seen */
const NEAR = 400;

/** `version` is another number when something has come. */
export function useOlderLines(
  root: { readonly current: HTMLElement | null },
  runId: string,
  model: RunModel,
  stream: IRunService['stream'],
  selected: number | null,
  version: number,
): void {
  const older = useMemo(
    () => new OlderLines(model, (rank, first, count) => stream.pull(runId, rank, first, count)),
    [model, runId, stream],
  );
  useEffect(() => older.advance(), [older, version]);
  useEffect(() => stream.onState(() => older.forget()), [stream, older]);
  useEffect(() => {
    const log = root.current?.querySelector('[role=log]');
    const look = (): void => {
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
    const soon = (): void => void requestAnimationFrame(() => requestAnimationFrame(look));
    log?.addEventListener('scroll', soon);
    const unsubscribe = model.log.subscribe(soon);
    return () => {
      log?.removeEventListener('scroll', soon);
      unsubscribe();
    };
  }, [root, model, older, selected]);
}
