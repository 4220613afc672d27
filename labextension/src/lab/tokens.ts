/** What the plugins of this extension have in common. */
import { Token } from '@lumino/coreutils';

import type { Language, Words } from '../words';
import type { Client } from './client';
import type { Runs } from './runs';
import type { Stream } from './stream';
import type { LabWords } from './words';

/** The runs of this user as the server tells them, and the language to speak of them. */
export interface IRunService {
  readonly client: Client;
  readonly stream: Stream;
  readonly runs: Runs;
  readonly language: Language;
  readonly words: LabWords;
  readonly panelWords: Words;
}

export const IRunService = new Token<IRunService>('nbdist:IRunService');

/** What can be done with a run. Every command takes `{runId}`, or `{runIds}` for more than one. */
export const COMMANDS = {
  show: 'nbdist:show-runs',
  latest: 'nbdist:open-latest',
  refresh: 'nbdist:refresh',
  open: 'nbdist:open',
  compare: 'nbdist:compare',
  stop: 'nbdist:stop',
  attach: 'nbdist:attach',
  reveal: 'nbdist:reveal',
  again: 'nbdist:run-again',
  export: 'nbdist:export',
  remove: 'nbdist:delete',
  runOnRanks: 'nbdist:run-on-ranks',
} as const;

/** The run that a command is about; empty for none. */
export function runIn({ runId }: { runId?: unknown }): string {
  return typeof runId === 'string' ? runId : '';
}
