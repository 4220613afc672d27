/** Which news of runs are announced, and for how long: nothing that the reader sees or has asked for. */
import type { RunRow } from './rows';
import type { RunEvent } from './runs';

/** What the user's settings ask for. */
export type Wish = 'all' | 'problems' | 'none';

/** seconds: who starts a run that is shorter is still looking when it ends */
const SHORT = 10;

export interface Announcer {
  wish(): Promise<Wish>;
  /** whether the run is on the screen, where its panel says the same */
  sees(row: RunRow): boolean;
  /** returns the announcement's id */
  announce(event: RunEvent): string;
  withdraw(id: string): void;
}

/** Takes the news of all runs. That a run stalls stays announced for as long as that is true. */
export function announcements(announcer: Announcer): (event: RunEvent) => Promise<void> {
  const stalls = new Map<string, string>();
  return async event => {
    const { kind, row } = event;
    const wish = await announcer.wish();
    const past = stalls.get(row.runId);
    if (past !== undefined) {
      announcer.withdraw(past);
      stalls.delete(row.runId);
    }
    if (kind !== 'resumed' && isNews(event, wish) && !announcer.sees(row)) {
      const id = announcer.announce(event);
      if (kind === 'stalled') {
        stalls.set(row.runId, id);
      }
    }
  };
}

/** How long the ranks of a run that has ended were there. */
export function secondsOf({ created, started, ended }: RunRow): number {
  return (ended ?? created) - (started ?? created);
}

function isNews({ kind, row }: RunEvent, wish: Wish): boolean {
  if (kind === 'stalled' || row.state === 'failed' || row.state === 'lost') {
    return wish !== 'none';
  }
  return wish === 'all' && !row.stoppedAsAsked && secondsOf(row) >= SHORT;
}
