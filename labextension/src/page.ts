/**
 * What the page around offers: nodes, a clipboard, and deeds of nbdist's extension, where it has that. The panel is
 * a widget, which knows neither notebook nor dashboard: it dispatches, and the extension listens.
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

/** Open the dashboard of the run; run its cell again; write it into files. */
export type PageAction = 'open' | 'again' | 'export';

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
