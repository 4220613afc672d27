/**
 * What a panel asks of the page around it, where that has nbdist's extension. The panel is a widget, which
 * knows neither notebook nor dashboard: it dispatches, and the extension listens.
 */

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
export function pageActs(page: Document = document): boolean {
  return !page.dispatchEvent(new CustomEvent(EVENT, { cancelable: true }));
}

export function askPage(asked: Asked, page: Document = document): void {
  page.dispatchEvent(new CustomEvent<Asked>(EVENT, { cancelable: true, detail: asked }));
}

/** Do what panels ask, from now on. */
export function actForPanels(act: (asked: Asked) => void, page: Document = document): void {
  page.addEventListener(EVENT, event => {
    const asked = (event as CustomEvent<Asked | null>).detail;
    event.preventDefault();
    if (asked) {
      act(asked);
    }
  });
}
