/** The server that wrote the page. */
import { type DebugAnswers, debugAnswers } from '../protocol/run';

/** milliseconds that a server may take */
const PATIENCE = 10000;

/** milliseconds after which a server without nbdist is asked again */
const ASK_AGAIN = 30000;

/** The Jupyter server that wrote the page. A page that none wrote (VS Code, Colab) has no address to ask. The kernel
 * itself cannot be asked while a cell keeps it busy, or when it is dead. */
export class PageServer {
  private extended: Promise<boolean> | null = null;
  private askedAt = -Infinity;

  constructor(
    private readonly page: Document = document,
    private readonly send: typeof fetch = (...given) => fetch(...given),
  ) {}

  /** Stop a run; return true when nbdist's server extension has requested it. */
  async stop(runId: string): Promise<boolean> {
    return (await this.ofRun(runId, '/stop', 'POST')) !== null;
  }

  /** Record a profile; return true when nbdist's server extension has begun. */
  async profile(runId: string): Promise<boolean> {
    return (await this.ofRun(runId, '/profile', 'POST')) !== null;
  }

  /** Return the address of the traces of its last profile. */
  trace(runId: string): string {
    return `${this.base()}nbdist/api/runs/${encodeURIComponent(runId)}/profile`;
  }

  /** Return the bytes of a picture or HTML that a rank of the run showed; null where it cannot be had. */
  async media(runId: string, rank: number, name: string): Promise<Uint8Array | null> {
    const response = await this.ofRun(runId, `/ranks/${rank}/media/${encodeURIComponent(name)}`);
    return response && new Uint8Array(await response.arrayBuffer());
  }

  /** Return `RunDetail` of nbdist/server/openapi.yaml; null where the server does not know the run. */
  async run(runId: string): Promise<unknown> {
    return (await this.ofRun(runId))?.json().catch(() => null) ?? null;
  }

  /** Return the run as one text; null where the server has no extension, or no such run. */
  async report(runId: string, language: string): Promise<string | null> {
    return (await this.ofRun(runId, `/report?language=${language}`))?.text() ?? null;
  }

  /** Send a command to the prompts of held ranks; null where the server has no extension. */
  async debug(runId: string, ranks: readonly number[], command: string): Promise<DebugAnswers | null> {
    const response = await this.ofRun(runId, '/debug', 'POST', { ranks, command });
    return debugAnswers(await response?.json().catch(() => null));
  }

  /** Interrupt a kernel, as every Jupyter server can; return true when it took the request. */
  async interruptKernel(kernelId: string): Promise<boolean> {
    const path = `api/kernels/${encodeURIComponent(kernelId)}/interrupt`;
    return kernelId !== '' && (await this.request(path, 'POST')) !== null;
  }

  /** Return what nbdist's server extension has of a run; null where it is not installed: a server that was away or has
   * been started again since may have it. */
  private async ofRun(runId: string, path = '', method = 'GET', body?: object): Promise<Response | null> {
    if (!runId) {
      return null;
    }
    if (!(await this.extended) && performance.now() - this.askedAt > ASK_AGAIN) {
      this.askedAt = performance.now();
      this.extended = this.request('nbdist/api/status').then(response => response !== null);
    }
    const url = `nbdist/api/runs/${encodeURIComponent(runId)}${path}`;
    return (await this.extended) ? this.request(url, method, body) : null;
  }

  /** Return the address of the server; empty where the page has none. */
  private base(): string {
    const base = configOf(this.page).baseUrl || this.page.body.dataset['baseUrl'];
    return typeof base === 'string' ? base.replace(/\/?$/, base && '/') : '';
  }

  /** Return what the server grants; null for a refusal, or no answer. */
  private async request(path: string, method = 'GET', body?: object): Promise<Response | null> {
    const config = configOf(this.page);
    const base = this.base();
    if (!base) {
      return null;
    }
    const response = await this.send(base + path, {
      method,
      body: body ? JSON.stringify(body) : null,
      headers: headersOf(this.page, config),
      credentials: 'same-origin',
      signal: AbortSignal.timeout(PATIENCE),
    }).catch(() => null);
    return response?.ok ? response : null;
  }
}

interface PageConfig {
  baseUrl?: unknown;
  token?: unknown;
}

function headersOf(page: Document, config: PageConfig): Record<string, string> {
  const headers: Record<string, string> = {};
  const xsrf = /(?:^|; )_xsrf=([^;]*)/.exec(page.cookie)?.[1];
  if (xsrf) {
    headers['X-XSRFToken'] = decodeURIComponent(xsrf);
  }
  if (typeof config.token === 'string' && config.token) {
    headers['Authorization'] = `token ${config.token}`;
  }
  return headers;
}

function configOf(page: Document): PageConfig {
  try {
    const config: unknown = JSON.parse(page.getElementById('jupyter-config-data')?.textContent || '{}');
    return typeof config === 'object' && config !== null ? config : {};
  } catch {
    return {};
  }
}
