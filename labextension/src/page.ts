/**
 * What the page around offers: nodes, a clipboard, actions of nbdist's extension where it has that, and its server.
 * The panel is a widget, which knows neither notebook nor dashboard: it dispatches, and the extension listens.
 */

export function element(tag: string, className = '', text?: string): HTMLElement {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  if (text !== undefined) {
    node.textContent = text;
  }
  return node;
}

/** What went wrong, in words. */
export function messageOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}

/** Copies text; false when the page may not. A page that is not secure (http) has no clipboard to ask. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text);
  }
}

function copySelection(text: string): boolean {
  const field = document.createElement('textarea');
  const focused = document.activeElement;
  field.value = text;
  field.style.cssText = 'position:fixed;opacity:0';
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (focused instanceof HTMLElement) {
    focused.focus({ preventScroll: true });
  }
  return done;
}

/** A cell that starts a run: its first line above the program; the line of a script is all. */
export function cellText(line: string, program: string): string {
  return line.startsWith('%%') ? `${line}\n${program.replace(/^\n+/, '')}` : line;
}

/** Open the dashboard of the run; run its cell again, or a copy of it with other options; write it into files. */
export type PageAction = 'open' | 'again' | 'againWith' | 'export';

export interface Asked {
  action: PageAction;
  runId: string;
  label: string;
  /** what is to be seen of the dashboard */
  tab?: 'all' | 'metrics';
  /** what was pressed */
  from: Element;
}

const EVENT = 'nbdist:action';

/** Whether the page does what is asked. */
export function pageActs(): boolean {
  return !document.dispatchEvent(new CustomEvent(EVENT, { cancelable: true }));
}

export function askPage(asked: Asked): void {
  document.dispatchEvent(new CustomEvent<Asked>(EVENT, { cancelable: true, detail: asked }));
}

/** Do what panels ask, from now on. */
export function actForPanels(act: (asked: Asked) => void): void {
  document.addEventListener(EVENT, event => {
    const asked = (event as CustomEvent<Asked | null>).detail;
    event.preventDefault();
    if (asked) {
      act(asked);
    }
  });
}

/** milliseconds that a server may take */
const PATIENCE = 10_000;

interface PageConfig {
  baseUrl?: unknown;
  token?: unknown;
}

/** Whether a server has the extension, by its address: asked once a page. */
const extended = new Map<string, Promise<boolean>>();

/**
 * Ends a run by way of the server that serves this page: the kernel itself cannot be asked while a cell keeps it
 * busy, or when it is dead. Where the server has nbdist's extension it asks the run; every Jupyter server can
 * interrupt the kernel. A page that no Jupyter server wrote (VS Code, Colab) has no address to ask. True when the
 * server's extension has asked the run to end.
 */
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
  return (
    (await hasExtension(page, send, known)) &&
    (await ask(`${base}nbdist/api/runs/${encodeURIComponent(runId)}/stop`, 'POST', page, send))
  );
}

/** A picture, or HTML, that a rank of the run showed, from the server's extension; null where it cannot be had. */
export async function fetchMedia(
  runId: string,
  rank: number,
  name: string,
  page: Document = document,
  send: typeof fetch = fetch,
  known = extended,
): Promise<Uint8Array | null> {
  if (!(await hasExtension(page, send, known)) || !runId) {
    return null;
  }
  const path = `nbdist/api/runs/${encodeURIComponent(runId)}/ranks/${rank}/media/${encodeURIComponent(name)}`;
  const response = await request(addressOf(page) + path, 'GET', page, send);
  return response?.ok ? new Uint8Array(await response.arrayBuffer()) : null;
}

/** Whether the page's server has nbdist's extension. */
function hasExtension(page: Document, send: typeof fetch, known: typeof extended): Promise<boolean> {
  const base = addressOf(page);
  if (!base) {
    return Promise.resolve(false);
  }
  const there = known.get(base) ?? ask(`${base}nbdist/api/status`, 'GET', page, send);
  known.set(base, there);
  return there;
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
  return (await request(url, method, page, send))?.ok ?? false;
}

/** What the server answers; null for nothing. */
async function request(
  url: string,
  method: string,
  page: Document,
  send: typeof fetch,
): Promise<Response | null> {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), PATIENCE);
  try {
    return await send(url, {
      method,
      headers: headersOf(page, configOf(page)),
      credentials: 'same-origin',
      signal: giveUp.signal,
    });
  } catch {
    return null;
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
