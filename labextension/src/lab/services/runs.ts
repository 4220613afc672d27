/** The list of this user's runs as the page knows it, for the sidebar, the status bar and notices, and which of its
 * news are announced. It asks once, and follows the stream from then on. */
import { useSyncExternalStore } from 'react';

import { Emitter } from '../../log/emitter';
import { type Client, type ListPage, NoExtension, Refusal, type RunNews, type RunRow } from './client';
import { BROWSER_CLOCK, type Clock, type Stream } from './stream';

/** milliseconds of typing */
const TYPING = 150;
const PAGE = 50;
const LATER_PAGE = 200;

/** `absent`: the server has no nbdist. `offline`: it cannot be reached. `refused`: it does not read the runs. */
type ListState = 'unknown' | 'ready' | 'absent' | 'offline' | 'refused';

/** An event of a run that the reader may not have seen. */
export interface RunEvent {
  kind: 'ended' | 'stalled' | 'resumed';
  row: RunRow;
}

/** Tells when the list has changed. */
export class Runs extends Emitter {
  state: ListState = 'unknown';
  /** the server's reason for not reading the runs */
  refusal = '';
  /** the searched text, and true while its answer is under way */
  search = '';
  searching = false;
  /** the runs to show: pinned ones, those that go on, then the others, the newest first; another list after each
   * change */
  rows: readonly RunRow[] = [];

  /** runs that end, stall or go on again */
  readonly events = new Emitter<[RunEvent]>();

  private readonly known = new Map<string, RunRow>();
  /** the shown runs, the cursor of their next page (null at the end), and the search that they answer */
  private ids: readonly string[] = [];
  private next: string | null = null;
  private answered = '';
  private cancelSearch: (() => void) | null = null;
  private begun = false;
  private loading = false;
  private becomeReady: () => void = () => undefined;
  /** A promise that the list has come. */
  readonly ready = new Promise<void>(done => (this.becomeReady = done));

  constructor(
    private readonly client: Client,
    private readonly stream: Stream,
    private readonly clock: Clock = BROWSER_CLOCK,
  ) {
    super();
    stream.onRuns(news => this.hear(news));
    // of a server that is away, or was, the answer says how it stands
    stream.onState(() => {
      if (!stream.open || this.state !== 'ready') {
        void this.refresh();
      }
    });
  }

  get liveRows(): readonly RunRow[] {
    return this.knownRows.filter(row => row.live);
  }

  /** All rows that the page knows, shown or not. */
  get knownRows(): readonly RunRow[] {
    return [...this.known.values()];
  }

  get hasMore(): boolean {
    return this.next !== null;
  }

  row(runId: string): RunRow | undefined {
    return this.known.get(runId);
  }

  /** Ask for the first page, unless that was done. */
  async begin(): Promise<void> {
    if (!this.begun) {
      await this.refresh();
    }
  }

  /** Ask for the first page. The stream adds to it. */
  async refresh(): Promise<void> {
    this.begun = true;
    const { search } = this;
    try {
      const page = await this.client.runs({ limit: PAGE, search });
      if (search === this.search) {
        this.remember(page.runs, this.state === 'ready' ? this.newest() : Infinity);
        this.takeFirst(page);
        this.changed('ready');
      }
      this.stream.start();
    } catch (problem) {
      if (problem instanceof NoExtension) {
        this.changed('absent');
      } else if (problem instanceof Refusal) {
        this.refusal = problem.message;
        this.changed('refused');
      } else {
        // a socket is tried until the server answers, and then brings the list
        this.changed('offline');
        this.stream.start();
      }
    }
  }

  /** Request the next page of the shown list. */
  async more(): Promise<void> {
    const { search, next } = this;
    if (this.loading || next === null || this.answered !== search) {
      return;
    }
    this.loading = true;
    try {
      const page = await this.client.runs({ limit: LATER_PAGE, before: next, search });
      if (search === this.search) {
        this.remember(page.runs);
        this.add(page.runs);
        this.next = page.next;
        this.changed();
      }
    } catch {
      // the next look at the end of the list asks again
    } finally {
      this.loading = false;
    }
  }

  find(search: string): void {
    const wanted = search.trim();
    if (wanted === this.search) {
      return;
    }
    // the runs that are shown stay until the server has answered
    this.search = wanted;
    this.searching = wanted !== '';
    this.cancelSearch?.();
    this.cancelSearch = this.clock.after(TYPING, () => {
      void this.refresh().finally(() => {
        this.searching = false;
        this.changed();
      });
    });
    this.changed();
  }

  /** Take over a row that this page has changed. */
  update(row: RunRow): void {
    this.remember([row]);
    this.changed();
  }

  /** Drop a run that this page has deleted. */
  forget(runId: string): void {
    this.known.delete(runId);
    this.changed();
  }

  private hear(news: RunNews): void {
    const fresh = news.runs.filter(row => !this.known.has(row.runId));
    this.remember(news.runs, this.newest());
    const removed = news.first ? this.missingIn(news.runs) : news.removed;
    removed.forEach(id => this.known.delete(id));
    if (!this.search) {
      this.add(fresh);
    } else if (fresh.length) {
      void this.refresh();
    }
    this.changed('ready');
  }

  /** Return the known runs that a whole first page would list if they still existed. */
  private missingIn(rows: readonly RunRow[]): readonly string[] {
    const listed = new Set(rows.map(({ runId }) => runId));
    const always = ({ live, pinned }: RunRow): boolean => live || pinned;
    const oldest = Math.min(...rows.filter(row => !always(row)).map(({ created }) => created));
    return this.knownRows
      .filter(row => !listed.has(row.runId) && (always(row) || row.created > oldest))
      .map(({ runId }) => runId);
  }

  private add(rows: readonly RunRow[]): void {
    this.ids = [...new Set([...this.ids, ...rows.map(({ runId }) => runId)])];
  }

  /** Take the first page; of the same list again, further pages stay and new runs join them. */
  private takeFirst({ runs, next }: ListPage): void {
    if (this.search || this.answered || this.ids.length <= runs.length) {
      this.ids = [];
      this.next = next;
    }
    this.answered = this.search;
    this.add(runs);
  }

  /** Return the creation time of the newest known run, in Unix seconds. */
  private newest(): number {
    return Math.max(...this.knownRows.map(({ created }) => created));
  }

  /** Store rows and call the listeners; a run created after `newest` that has ended already is news, too. */
  private remember(rows: readonly RunRow[], newest = Infinity): void {
    for (const row of rows) {
      const before = this.known.get(row.runId);
      // an answer may be older than what the stream has said since; only what was lost comes back
      if (before && !before.live && row.live && before.state !== 'lost') {
        continue;
      }
      this.known.set(row.runId, row);
      if (!row.live && (before ? before.live : row.created > newest)) {
        this.events.tell({ kind: 'ended', row });
      } else if (before && before.stalled !== row.stalled && row.live) {
        this.events.tell({ kind: row.stalled ? 'stalled' : 'resumed', row });
      }
    }
  }

  private changed(state = this.state): void {
    this.state = state;
    if (state === 'ready') {
      this.becomeReady();
    }
    this.rows = this.ids.flatMap(id => this.known.get(id) ?? []).sort(byPlace);
    this.tell();
  }
}

/** Compare two rows: pinned runs before live ones, those before the others, the newest first. */
function byPlace(a: RunRow, b: RunRow): number {
  return Number(b.pinned) - Number(a.pinned) || Number(b.live) - Number(a.live) || b.created - a.created;
}

/** The user's setting of which events are announced. */
export type NoticeLevel = 'all' | 'problems' | 'none';

/** seconds: who starts a run that is shorter is still looking when it ends */
const SHORT = 10;

interface Announcer {
  level(): Promise<NoticeLevel>;
  /** true when the run is on the screen, where its panel says the same */
  sees(row: RunRow): boolean;
  /** returns the announcement's id */
  announce(event: RunEvent): string;
  withdraw(id: string): void;
}

/** Return the listener that announces events. A stall stays announced as long as it lasts. */
export function announcements(announcer: Announcer): (event: RunEvent) => Promise<void> {
  const stalls = new Map<string, string>();
  return async event => {
    const { kind, row } = event;
    const level = await announcer.level();
    const past = stalls.get(row.runId);
    if (past !== undefined) {
      announcer.withdraw(past);
      stalls.delete(row.runId);
    }
    if (kind !== 'resumed' && isNews(event, level) && !announcer.sees(row)) {
      const id = announcer.announce(event);
      if (kind === 'stalled') {
        stalls.set(row.runId, id);
      }
    }
  };
}

/** Return the seconds that the ranks of an ended run existed. */
export function secondsOf({ created, started, ended }: RunRow): number {
  return (ended ?? created) - (started ?? created);
}

function isNews({ kind, row }: RunEvent, level: NoticeLevel): boolean {
  if (kind === 'stalled' || row.state === 'failed' || row.state === 'lost') {
    return level !== 'none';
  }
  return level === 'all' && !row.stoppedAsAsked && secondsOf(row) >= SHORT;
}

/** Draw again whenever the list changes. */
export function useRuns(runs: Runs): Runs {
  useSyncExternalStore(runs.subscribe, () => runs.rows);
  return runs;
}
