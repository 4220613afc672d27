/** The server that wrote the page. */

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
    return (
      runId !== '' &&
      (await this.knows(`nbdist/api/runs/${encodeURIComponent(runId)}/stop`, 'POST'))?.ok === true
    );
  }

  /** Return the bytes of a picture or HTML that a rank of the run showed; null where it cannot be had. */
  async media(runId: string, rank: number, name: string): Promise<Uint8Array | null> {
    const path = `nbdist/api/runs/${encodeURIComponent(runId)}/ranks/${rank}/media/${encodeURIComponent(name)}`;
    const response = runId ? await this.knows(path, 'GET') : null;
    return response?.ok ? new Uint8Array(await response.arrayBuffer()) : null;
  }

  /** Return `RunDetail` of nbdist/server/openapi.yaml; null where the server does not know the run. */
  async run(runId: string): Promise<unknown> {
    const response = runId ? await this.knows(`nbdist/api/runs/${encodeURIComponent(runId)}`, 'GET') : null;
    return response?.ok ? response.json().catch(() => null) : null;
  }

  /** Return the run as one text; null where the server has no extension, or no such run. */
  async report(runId: string, language: string): Promise<string | null> {
    const path = `nbdist/api/runs/${encodeURIComponent(runId)}/report?language=${language}`;
    const response = runId ? await this.knows(path, 'GET') : null;
    return response?.ok ? response.text() : null;
  }

  /** Interrupt a kernel, as every Jupyter server can; return true when it took the request. */
  async interruptKernel(kernelId: string): Promise<boolean> {
    return kernelId !== '' && this.accepts(`api/kernels/${encodeURIComponent(kernelId)}/interrupt`, 'POST');
  }

  /** Return the answer of nbdist's server extension; null where it is not installed: a server that was away or has
   * been started again since may have it. */
  private async knows(path: string, method: string): Promise<Response | null> {
    if (!(await this.extended) && performance.now() - this.askedAt > ASK_AGAIN) {
      this.askedAt = performance.now();
      this.extended = this.accepts('nbdist/api/status', 'GET');
    }
    return (await this.extended) ? this.request(path, method) : null;
  }

  private async accepts(path: string, method: string): Promise<boolean> {
    return (await this.request(path, method))?.ok ?? false;
  }

  /** Return the server's answer; null for none. */
  private async request(path: string, method: string): Promise<Response | null> {
    const config = configOf(this.page);
    const base = config.baseUrl || this.page.body.dataset['baseUrl'];
    if (typeof base !== 'string' || !base) {
      return null;
    }
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), PATIENCE);
    try {
      return await this.send(base.replace(/\/?$/, '/') + path, {
        method,
        headers: headersOf(this.page, config),
        credentials: 'same-origin',
        signal: giveUp.signal,
      });
    } catch {
      return null;
    } finally {
      clearTimeout(timer);
    }
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
