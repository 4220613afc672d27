/**
 * Interrupts the kernel by way of the server that serves this page: the kernel itself cannot be asked
 * while a cell keeps it busy. Needs no extension of the server; a page that a Jupyter server did not
 * write (VS Code, Colab) has no address to ask.
 */

const PATIENCE = 10_000;

interface PageConfig {
  baseUrl?: unknown;
  token?: unknown;
}

/** True when the server took the request. */
export async function interruptKernel(
  kernelId: string,
  page: Document = document,
  send: typeof fetch = fetch,
): Promise<boolean> {
  const config = configOf(page);
  const base = config.baseUrl || page.body.dataset['baseUrl'];
  if (typeof base !== 'string' || !base || !kernelId) {
    return false;
  }
  const url = `${base.replace(/\/?$/, '/')}api/kernels/${encodeURIComponent(kernelId)}/interrupt`;
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), PATIENCE);
  try {
    const response = await send(url, {
      method: 'POST',
      headers: headersOf(page, config),
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
