/**
 * Ends a run by way of the server that serves this page: the kernel itself cannot be asked while a cell
 * keeps it busy, or when it is dead. Where the server has nbdist's extension it asks the run; every Jupyter
 * server can interrupt the kernel. A page that no Jupyter server wrote (VS Code, Colab) has no address to
 * ask.
 */

const PATIENCE = 10_000;

interface PageConfig {
  baseUrl?: unknown;
  token?: unknown;
}

/** Whether a server has the extension, by its address: asked once a page. */
const extended = new Map<string, Promise<boolean>>();

/** True when the server's extension has asked the run to end. */
export async function stopRun(
  runId: string,
  page: Document = document,
  send: typeof fetch = fetch,
  known = extended,
): Promise<boolean> {
  const base = addressOf(page);
  if (!base || !runId) {
    return false;
  }
  const there = known.get(base) ?? ask(`${base}nbdist/api/status`, 'GET', page, send);
  known.set(base, there);
  return (
    (await there) &&
    (await ask(`${base}nbdist/api/runs/${encodeURIComponent(runId)}/stop`, 'POST', page, send))
  );
}

/** True when the server took the request. */
export async function interruptKernel(
  kernelId: string,
  page: Document = document,
  send: typeof fetch = fetch,
): Promise<boolean> {
  const base = addressOf(page);
  if (!base || !kernelId) {
    return false;
  }
  return ask(`${base}api/kernels/${encodeURIComponent(kernelId)}/interrupt`, 'POST', page, send);
}

async function ask(url: string, method: string, page: Document, send: typeof fetch): Promise<boolean> {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), PATIENCE);
  try {
    const response = await send(url, {
      method,
      headers: headersOf(page, configOf(page)),
      credentials: 'same-origin',
      signal: giveUp.signal,
    });
    return response.ok;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** The server's address, with a slash at its end; empty where no Jupyter server wrote the page. */
function addressOf(page: Document): string {
  const base = configOf(page).baseUrl || page.body.dataset['baseUrl'];
  return typeof base === 'string' && base ? base.replace(/\/?$/, '/') : '';
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
