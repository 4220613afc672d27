/** Everything that is asked of the Jupyter server, and what it sends of runs, machines and options
 * (nbdist/server/openapi.yaml has it in words). No other module of the extension fetches. Whatever is not as agreed
 * throws `Malformed`. */
import {
  count,
  fields,
  flag,
  listOf,
  nullIfMalformed,
  number,
  object,
  or,
  bilingual,
  text,
} from '../../protocol/readers';
import { type Compared, compared } from '../../model/comparison';
import { messageOf } from '../../page/nodes';
import {
  type DebugAnswers,
  debugAnswers,
  progress,
  runState,
  runView,
  stallView,
  type StallView,
} from '../../protocol/run';

/** A run in a list. Times are Unix seconds. */
export type RunRow = ReturnType<typeof runRow>;
export const runRow = fields({
  runId: text,
  name: or(text, ''),
  /** the name and the end of the id: `lenet-k3f9` */
  label: text,
  state: runState,
  live: flag,
  stalled: or(flag, false),
  /** true when it is a session that waits for a cell */
  idle: or(flag, false),
  reason: bilingual,
  /** true when it was stopped because a person or a program asked for it */
  stoppedAsAsked: or(flag, false),
  created: number,
  started: or(number, null),
  ended: or(number, null),
  worldSize: count,
  devices: or(listOf(text), []),
  /** as the kernel knew it; empty where it did not */
  notebook: or(text, ''),
  /** the cell's id in the notebook; empty where the kernel did not know it */
  cellId: or(text, ''),
  progress: or(progress, null),
  /** the first failure, or where the main metric stands */
  headline: bilingual,
  spark: or(fields({ tag: text, values: listOf(number), diverged: or(flag, false) }), null),
  detached: or(flag, false),
  /** its point of a sweep; `higher`: true when more of the main metric is better */
  sweep: or(
    fields({
      sweepId: text,
      label: text,
      number: count,
      points: count,
      values: text,
      higher: or(flag, null),
    }),
    null,
  ),
  /** the user's own: it comes first, words to find it by, and a text */
  pinned: or(flag, false),
  tags: or(listOf(text), []),
  note: or(text, ''),
});

export type ListPage = ReturnType<typeof listPage>;
export const listPage = fields({
  runs: listOf(runRow),
  /** cursor of the next page */
  next: or(text, null),
});

/** A part of the list that the stream tells of. */
export type RunNews = ReturnType<typeof runNews>;
export const runNews = fields({
  runs: listOf(runRow),
  removed: or(listOf(text), []),
  /** true for a whole first page */
  first: or(flag, false),
});

/** A program that uses a GPU: "python (12)", or the run whose rank it is. */
const holder = fields({ pid: count, name: or(text, ''), runId: or(text, null) });

export type Gpu = ReturnType<typeof gpu>;
const gpu = fields({
  index: count,
  name: or(text, ''),
  memory: or(number, null),
  memoryTotal: or(number, null),
  holders: or(listOf(holder), []),
});

export type Devices = ReturnType<typeof devices>;
export const devices = fields({ gpus: listOf(gpu) });

/** An option of `%%distributed`, or of what is named in `magics`. */
export type Option = ReturnType<typeof option>;
const option = fields({
  flags: listOf(text),
  metavar: or(text, ''),
  help: value => {
    const { en, zh } = help(value);
    return { en, zh: zh ?? en };
  },
  choices: or(listOf(text), []),
  many: or(flag, false),
  magics: or(listOf(text), ['distributed']),
});
const help = fields({ en: text, zh: or(text, null) });

export const options = fields({ options: listOf(option) });

/** The server that serves the page, as JupyterLab's ServerConnection knows it. */
export interface Server {
  /** ends with a slash */
  readonly baseUrl: string;
  readonly wsUrl: string;
  /** appended to addresses of sockets; empty where a cookie says who asks */
  readonly token: string;
  request(url: string, init: RequestInit): Promise<Response>;
  socket(url: string): WebSocket;
}

/** The server has no nbdist: it is not installed beside it, or the server has not been started again. */
export class NoExtension extends Error {}

/** The server's reason for refusing a request. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** The server cannot be reached. */
export class Offline extends Error {}

/** A run as it stands, and its program. */
type RunDetail = ReturnType<typeof runDetail>;
const runDetail = fields({ row: runRow, view: or(runView, null), cell: or(text, ''), line: or(text, '') });

const boardAddress = fields({ url: text });
const taken = fields({ stall: stallView });

export class Client {
  constructor(private readonly server: Server) {}

  async runs(query: { limit?: number; before?: string | null; search?: string } = {}): Promise<ListPage> {
    const given = Object.entries(query).filter(([, value]) => value);
    const params = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
    return listPage(await this.get(`api/runs?${params}`));
  }

  async run(runId: string): Promise<RunDetail> {
    return runDetail(await this.get(runPath(runId)));
  }

  /** Return the output that a notebook keeps of an ended run, by MIME type, and the notes for its panel. */
  async summary(
    runId: string,
    language: string,
  ): Promise<{ data: Record<string, string>; notes: readonly string[] }> {
    const answer = object(await this.get(runPath(runId, `/summary?language=${language}`)));
    const data = Object.entries(object(answer['data'])).map(([type, content]) => [type, text(content)]);
    return {
      data: Object.fromEntries(data) as Record<string, string>,
      notes: or(listOf(text), [])(answer['notes'], answer, ''),
    };
  }

  /** Return the run as one text, for another reader. */
  async report(runId: string, language: string): Promise<string> {
    return (await this.raw(runPath(runId, `/report?language=${language}`))).text();
  }

  async stop(runId: string, reason: string): Promise<void> {
    await this.send('POST', runPath(runId, '/stop'), { reason });
  }

  async stopSweep(sweepId: string, reason: string): Promise<void> {
    await this.send('POST', `api/sweeps/${encodeURIComponent(sweepId)}/stop`, { reason });
  }

  /** Take the stacks of all ranks. Takes up to some seconds. */
  async stacks(runId: string): Promise<StallView> {
    return taken(await this.send('POST', runPath(runId, '/stacks'))).stall;
  }

  /** Begin to record a profile, which comes with a later view. */
  async profile(runId: string): Promise<void> {
    await this.send('POST', runPath(runId, '/profile'));
  }

  /** Interrupt one rank, as Ctrl-C does in a terminal. */
  async interrupt(runId: string, rank: number): Promise<void> {
    await this.send('POST', runPath(runId, `/ranks/${rank}/interrupt`));
  }

  /** Send a command to the prompts of held ranks. */
  async debug(runId: string, ranks: readonly number[], command: string): Promise<DebugAnswers | null> {
    return debugAnswers(await this.send('POST', runPath(runId, '/debug'), { ranks, command }));
  }

  /** Change some of the user's marks of a run; return its row. */
  async mark(runId: string, change: Partial<Pick<RunRow, 'pinned' | 'tags' | 'note'>>): Promise<RunRow> {
    return runRow(await this.send('PATCH', runPath(runId), change));
  }

  async remove(runId: string): Promise<void> {
    await this.send('DELETE', runPath(runId));
  }

  /** Return the address of VisualDL over these runs. */
  async board(runIds: readonly string[]): Promise<string> {
    return boardAddress(await this.send('POST', 'api/board', { run_ids: runIds })).url;
  }

  /** Return runs beside each other, with their curves or with how their programs differ. Runs that are gone are left
   * out. */
  async compare(runIds: readonly string[], curves: boolean): Promise<Compared> {
    return compared(await this.send('POST', 'api/compare', { run_ids: runIds, curves }));
  }

  async devices(): Promise<Devices> {
    return devices(await this.get('api/devices'));
  }

  async options(): Promise<readonly Option[]> {
    return options(await this.get('api/options')).options;
  }

  /** Return the address of the whole log of a rank as a file. */
  logUrl(runId: string, rank: number): string {
    return this.url(runPath(runId, `/ranks/${rank}/log?download=1`));
  }

  traceUrl(runId: string): string {
    return this.url(runPath(runId, '/profile'));
  }

  /** Return the bytes of a picture or HTML that a rank showed. */
  async media(runId: string, rank: number, name: string): Promise<Uint8Array> {
    const path = runPath(runId, `/ranks/${rank}/media/${encodeURIComponent(name)}`);
    return new Uint8Array(await (await this.raw(path)).arrayBuffer());
  }

  socket(): WebSocket {
    const { wsUrl, token } = this.server;
    const asker = token ? `?token=${encodeURIComponent(token)}` : '';
    return this.server.socket(`${wsUrl}nbdist/api/stream${asker}`);
  }

  private url(path: string): string {
    return `${this.server.baseUrl}nbdist/${path}`;
  }

  /** Request a path whose answer is no JSON. */
  private async raw(path: string): Promise<Response> {
    const response = await this.server.request(this.url(path), { method: 'GET' });
    if (!response.ok) {
      throw new Refusal(response.status, response.statusText);
    }
    return response;
  }

  private get(path: string): Promise<unknown> {
    return this.send('GET', path);
  }

  private async send(method: string, path: string, body?: object): Promise<unknown> {
    const init: RequestInit = { method, ...(body && { body: JSON.stringify(body) }) };
    let response: Response;
    try {
      response = await this.server.request(this.url(path), init);
    } catch (problem) {
      throw new Offline(messageOf(problem));
    }
    const answer = await readJson(response);
    if (response.ok) {
      return answer;
    }
    const message = refusalIn(answer);
    // a server without the extension knows no such path, and answers with a page or a text of its own
    const ofRuns = path.startsWith('api/runs/') || path === 'api/compare';
    if (response.status === 404 && (message === null || !ofRuns)) {
      throw new NoExtension();
    }
    throw response.status >= 502 && message === null
      ? new Offline(response.statusText)
      : new Refusal(response.status, message ?? `${response.status} ${response.statusText}`);
  }
}

function runPath(runId: string, below = ''): string {
  return `api/runs/${encodeURIComponent(runId)}${below}`;
}

async function readJson(response: Response): Promise<unknown> {
  try {
    const written = await response.text();
    return written ? (JSON.parse(written) as unknown) : null;
  } catch {
    return null;
  }
}

function refusalIn(answer: unknown): string | null {
  return nullIfMalformed(() => text(object(answer)['message']));
}
