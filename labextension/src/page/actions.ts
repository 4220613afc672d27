/** Actions of the extension where it is installed: the panel is a widget, which knows neither notebook nor dashboard;
 * it dispatches, and the extension listens. */

/** Return a cell that starts a run: its first line above the program; of a script the line alone. */
export function cellSource(line: string, program: string): string {
  return line.startsWith('%%') ? `${line}\n${program.replace(/^\n+/, '')}` : line;
}

/** Open the dashboard of the run; show its panel in a new cell; run its cell again, or a copy of it with other
 * options; write it into files; go on from its last checkpoint. */
export type PageAction = 'open' | 'attach' | 'again' | 'againWith' | 'export' | 'resume';

export interface PageRequest {
  action: PageAction;
  runId: string;
  label: string;
  /** the tab of the dashboard to show */
  tab?: 'all' | 'metrics' | undefined;
  /** the pressed element */
  from: Element;
}

const EVENT = 'nbdist:action';

/** Return true when the page carries out actions of panels. */
export function pageActs(): boolean {
  return !document.dispatchEvent(new CustomEvent(EVENT, { cancelable: true }));
}

export function askPage(request: PageRequest): void {
  document.dispatchEvent(new CustomEvent<PageRequest>(EVENT, { cancelable: true, detail: request }));
}

/** Do what panels ask, from now on. */
export function actForPanels(act: (request: PageRequest) => void): void {
  document.addEventListener(EVENT, event => {
    const request = (event as CustomEvent<PageRequest | null>).detail;
    event.preventDefault();
    if (request) {
      act(request);
    }
  });
}
