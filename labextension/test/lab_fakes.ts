/** A server's side and a clock that the tests move by hand. */
import { Client, type Server } from '../src/lab/services/client';
import { type Clock, Stream } from '../src/lab/services/stream';
import { RunModel } from '../src/model/run_model';

export class FakeClock implements Clock {
  now = 0;
  private waiting: { at: number; act: () => void }[] = [];

  after(milliseconds: number, act: () => void): () => void {
    const entry = { at: this.now + milliseconds, act };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter(each => each !== entry);
    };
  }

  /** Let time pass: what is due happens, and whatever it began is given its turn. */
  async pass(milliseconds: number): Promise<void> {
    const until = this.now + milliseconds;
    for (;;) {
      const [next] = this.waiting.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (!next) {
        break;
      }
      this.now = next.at;
      this.waiting = this.waiting.filter(each => each !== next);
      next.act();
      await settled();
    }
    this.now = until;
  }
}

/** Until every promise that could be kept has been. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await Promise.resolve();
  }
}

export class FakeSocket {
  binaryType = '';
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  readonly sent: Record<string, unknown>[] = [];

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }

  close(): void {
    this.onclose?.();
  }

  get kinds(): unknown[] {
    return this.sent.map(({ kind }) => kind);
  }

  receive(header: object, buffers: readonly Uint8Array[] = []): void {
    this.onmessage?.({ data: frame(header, buffers) });
  }
}

export function frame(header: object, buffers: readonly Uint8Array[] = []): ArrayBuffer {
  const text = new TextEncoder().encode(
    JSON.stringify({ ...header, buffers: buffers.map(each => each.length) }),
  );
  const bytes = new Uint8Array(4 + text.length + buffers.reduce((sum, { length }) => sum + length, 0));
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  let at = 4 + text.length;
  for (const buffer of buffers) {
    bytes.set(buffer, at);
    at += buffer.length;
  }
  return bytes.buffer;
}

type Answer = { status?: number; body?: unknown } | Error;

/** Answers from a table of paths; what is not there is a server without nbdist. */
export class FakeServer implements Server {
  baseUrl = '/user/ada/';
  wsUrl = 'ws://host/user/ada/';
  token = '';
  answers: Record<string, Answer> = {};
  readonly requests: string[] = [];
  readonly bodies: unknown[] = [];
  readonly sockets: FakeSocket[] = [];
  readonly addresses: string[] = [];

  request(url: string, init: RequestInit): Promise<Response> {
    const path = url.replace(this.baseUrl, '');
    this.requests.push(`${init.method} ${path}`);
    this.bodies.push(typeof init.body === 'string' ? JSON.parse(init.body) : null);
    const key = Object.keys(this.answers).find(each => `${init.method} ${path}`.startsWith(each));
    const answer = key === undefined ? { status: 404, body: '<html>' } : this.answers[key]!;
    if (answer instanceof Error) {
      return Promise.reject(answer);
    }
    const { status = 200, body } = answer;
    const text = typeof body === 'string' ? body : body === undefined ? '' : JSON.stringify(body);
    return Promise.resolve({
      ok: status < 400,
      status,
      statusText: String(status),
      text: () => Promise.resolve(text),
    } as Response);
  }

  socket(url: string): WebSocket {
    const socket = new FakeSocket();
    this.sockets.push(socket);
    this.addresses.push(url);
    return socket as unknown as WebSocket;
  }

  get lastSocket(): FakeSocket {
    return this.sockets.at(-1)!;
  }
}

export function fakeService(): {
  server: FakeServer;
  client: Client;
  stream: Stream;
  clock: FakeClock;
  make: () => RunModel;
} {
  const server = new FakeServer();
  const client = new Client(server);
  const clock = new FakeClock();
  const pace = { now: () => clock.now / 1000, frame: (draw: () => void) => draw() };
  const stream = new Stream(() => client.socket(), clock);
  return { server, client, stream, clock, make: () => new RunModel(pace) };
}

/** A row as the server writes it. */
export function row(label: string, given: object = {}): Record<string, unknown> {
  return {
    run_id: `20261120-141503-${label}`,
    name: label.split('-')[0],
    label,
    state: 'finished',
    live: false,
    stalled: false,
    reason: '',
    created: 1000,
    started: 1001,
    ended: 1100,
    world_size: 2,
    devices: ['CPU'],
    framework: 'torch',
    notebook: '/home/ada/lenet.ipynb',
    cell_id: 'a1',
    progress: null,
    headline: '',
    headline_zh: '',
    spark: null,
    detached: false,
    ...given,
  };
}

export const running = { state: 'running', live: true, ended: null };
