/** The service and the commands that the plugins of this extension share. */
import { Token } from '@lumino/coreutils';

import type { Client } from './services/client';
import type { Runs } from './services/runs';
import type { Stream } from './services/stream';

/** The runs of this user as the server tells them. */
export interface IRunService {
  readonly client: Client;
  readonly stream: Stream;
  readonly runs: Runs;
}

export const IRunService = new Token<IRunService>('nbdist:IRunService');

/** The commands on runs. Each takes `{runId}`, or `{runIds}` for several; `stopSweep` takes `{sweepId}`. */
export const COMMANDS = {
  show: 'nbdist:show-runs',
  open: 'nbdist:open',
  compare: 'nbdist:compare',
  stop: 'nbdist:stop',
  stopSweep: 'nbdist:stop-sweep',
  attach: 'nbdist:attach',
  reveal: 'nbdist:reveal',
  again: 'nbdist:run-again',
  againWith: 'nbdist:run-again-with',
  scale: 'nbdist:scale',
  remove: 'nbdist:delete',
  pin: 'nbdist:pin',
  tag: 'nbdist:tag',
  note: 'nbdist:note',
  runOnRanks: 'nbdist:run-on-ranks',
} as const;

/** Carries out a command. */
export type Execute = (
  command: string,
  args: { runId?: string; runIds?: string[]; sweepId?: string; line?: number },
) => void;

/** Return the run that a command is about; empty for none. */
export function runIn({ runId }: { runId?: unknown }): string {
  return typeof runId === 'string' ? runId : '';
}

/** milliseconds after which what waits is done all the same */
const LATEST = 3000;

/** Wait until the page is restored and idle. */
export async function whenIdle(page: { readonly restored: Promise<unknown> }): Promise<void> {
  await page.restored;
  await new Promise<void>(idle => {
    if (typeof requestIdleCallback === 'function') {
      requestIdleCallback(() => idle(), { timeout: LATEST });
    } else {
      setTimeout(idle, LATEST / 2);
    }
  });
}
