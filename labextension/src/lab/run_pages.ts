/** The pages of a list of runs that have come, as one: which runs, and what to ask for next. */
import type { RunPage, RunRow } from './rows';

export class RunPages {
  ids: readonly string[] = [];
  /** what to ask for after what is here; null at the end */
  next: string | null = null;

  add(rows: readonly RunRow[]): void {
    this.ids = [...new Set([...this.ids, ...rows.map(({ runId }) => runId)])];
  }

  /** The first page has come again. `grows`: further pages stay, only what is new comes to them. */
  takeFirst(page: RunPage, grows: boolean): void {
    if (grows && this.ids.length > page.runs.length) {
      this.add(page.runs);
    } else {
      this.ids = page.runs.map(({ runId }) => runId);
      this.next = page.next;
    }
  }
}

/** Those that go on, then the others, the newest first. */
export function newestFirst(one: RunRow, other: RunRow): number {
  return Number(other.live) - Number(one.live) || other.created - one.created;
}

/** As the server searches: every word is somewhere in what a row shows. */
export function matches(row: RunRow | undefined, search: string): boolean {
  if (!row) {
    return false;
  }
  const text = [row.runId, row.name, row.notebook, row.state, row.reason.en, row.reason.zh]
    .join('\n')
    .toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word));
}
