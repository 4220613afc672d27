/** From a run to its cell, from a cell to a run: reveal, attach, and the form that writes the first line. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { createElement } from 'react';

import { actForPanels } from '../../page_actions';
import { wantedOf, withFirstLine, type Wanted } from '../first_line';
import { cellOf, contentsPath } from '../places';
import type { Gpu } from '../rows';
import { COMMANDS, IRunService } from '../tokens';
import { showLine } from './cell_lines';
import { ranksIcon } from './icons';
import { ViewWidget } from './view_widget';

/** milliseconds */
const MOMENT = 3000;
/** a cell that starts a run, not one that shows it again */
const STARTS = /^\s*%%?distributed\b/m;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:notebook',
  description: 'Distributed runs from the cells of a notebook.',
  autoStart: true,
  requires: [IRunService, INotebookTracker],
  optional: [IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    notebooks: INotebookTracker,
    documents: IDocumentManager | null,
  ): void => {
    const { words } = service;
    const meant = (args: { runId?: unknown }): string =>
      typeof args.runId === 'string'
        ? args.runId
        : (app.contextMenuHitTest(node => 'run' in node.dataset)?.dataset['run'] ?? '');
    const args = { type: 'object', properties: { runId: { type: 'string' }, line: { type: 'number' } } };

    app.commands.addCommand(COMMANDS.reveal, {
      label: words.reveal,
      isVisible: given => Boolean(service.runs.row(meant(given))?.notebook),
      describedBy: { args },
      execute: async given => {
        const problem = await reveal(service, notebooks, documents, meant(given), Number(given['line'] ?? 0));
        if (problem) {
          Notification.info(problem, { autoClose: 6000 });
        }
      },
    });
    app.commands.addCommand(COMMANDS.attach, {
      label: words.attach,
      caption: words.attachHint,
      describedBy: { args },
      execute: async given => {
        const panel = notebooks.currentWidget;
        const runId = meant(given);
        // a kernel that is busy would attach later, when nobody looks any more
        if (!panel || !(await becomesIdle(panel))) {
          await app.commands.execute(COMMANDS.open, { runId });
        } else {
          await runBelow(panel, `%dist_attach ${service.runs.row(runId)?.label ?? runId}`);
        }
      },
    });
    app.commands.addCommand(COMMANDS.again, {
      label: service.panelWords.runAgain,
      isVisible: given => Boolean(service.runs.row(meant(given))?.notebook),
      describedBy: { args },
      execute: async given => {
        const found = await cellOfRun(service, notebooks, documents, meant(given));
        if (typeof found === 'string') {
          Notification.info(found, { autoClose: 6000 });
        } else {
          await runCell(found.panel, found.at);
        }
      },
    });
    app.commands.addCommand(COMMANDS.export, {
      label: service.panelWords.exportRun,
      describedBy: { args },
      execute: async given => {
        const runId = meant(given);
        const panel = notebooks.currentWidget;
        if (panel) {
          await runBelow(panel, `%dist_export ${service.runs.row(runId)?.label ?? runId}`);
        }
      },
    });
    actForPanels(({ action, runId, label, tab, from }) => {
      const panel = notebooks.find(({ node }) => node.contains(from));
      const at = panel?.content.widgets.findIndex(({ node }) => node.contains(from)) ?? -1;
      const source = panel?.content.widgets[at]?.model.sharedModel.getSource() ?? '';
      if (action === 'export' && panel) {
        panel.content.activeCellIndex = at;
        void runBelow(panel, `%dist_export ${label}`);
      } else if (action === 'again' && panel && STARTS.test(source)) {
        void runCell(panel, at);
      } else {
        void app.commands.execute(COMMANDS[action], { runId, tab: tab ?? '' });
      }
    });
    app.commands.addCommand(COMMANDS.runOnRanks, {
      label: given => (given['toolbar'] ? '' : words.runOnRanks),
      caption: words.runOnRanksHint,
      icon: given => (given['toolbar'] ? ranksIcon : undefined),
      isEnabled: () => notebooks.activeCell?.model.type === 'code',
      isVisible: () => notebooks.activeCell?.model.type === 'code',
      describedBy: { args: { type: 'object', properties: { toolbar: { type: 'boolean' } } } },
      execute: () => runOnRanks(service, notebooks),
    });
  },
};

export default plugin;

/** Writes a line magic into a cell below the active one, and runs it. */
async function runBelow(panel: NotebookPanel, magic: string): Promise<void> {
  const idle = panel.sessionContext.session?.kernel?.status === 'idle';
  const load = !idle || (await knowsMagics(panel)) ? '' : '%load_ext nbdist\n';
  NotebookActions.insertBelow(panel.content);
  panel.content.activeCell?.model.sharedModel.setSource(`${load}${magic}`);
  await NotebookActions.run(panel.content, panel.sessionContext);
}

async function runCell(panel: NotebookPanel, at: number): Promise<void> {
  panel.content.deselectAll();
  panel.content.activeCellIndex = at;
  await NotebookActions.run(panel.content, panel.sessionContext);
}

/** Whether the kernel takes requests, now or in a moment: one that was just started is busy with itself. */
function becomesIdle({ sessionContext }: NotebookPanel): Promise<boolean> {
  const idle = (): boolean => sessionContext.session?.kernel?.status === 'idle';
  if (idle()) {
    return Promise.resolve(true);
  }
  return new Promise(done => {
    const look = (): void => {
      if (idle()) {
        end();
      }
    };
    const end = (): void => {
      clearTimeout(timer);
      sessionContext.statusChanged.disconnect(look);
      done(idle());
    };
    const timer = setTimeout(end, MOMENT);
    sessionContext.statusChanged.connect(look);
  });
}

/** Whether the kernel, which is idle, has nbdist's magics: after a restart it has not. */
async function knowsMagics({ sessionContext }: NotebookPanel): Promise<boolean> {
  const asked = sessionContext.session?.kernel?.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { known: "get_ipython().find_line_magic('dist_attach') is not None" },
  });
  const reply = await asked?.done;
  const answers = reply?.content.status === 'ok' ? reply.content.user_expressions : {};
  return JSON.stringify(answers['known'] ?? '').includes('True');
}

/** Goes to the cell of a run, and to a line of it (0 for none). What stands in the way, if anything. */
async function reveal(
  service: IRunService,
  notebooks: INotebookTracker,
  documents: IDocumentManager | null,
  runId: string,
  line: number,
): Promise<string> {
  const found = await cellOfRun(service, notebooks, documents, runId);
  if (typeof found === 'string') {
    return found;
  }
  const { panel, at } = found;
  const cell = panel.content.widgets[at]!;
  panel.content.activeCellIndex = at;
  await panel.content.scrollToCell(cell, 'smart');
  if (line > 0) {
    await showLine(cell, line);
  }
  return '';
}

/** The cell of a run in its notebook, which is opened; or what stands in the way. */
async function cellOfRun(
  { client, words }: IRunService,
  notebooks: INotebookTracker,
  documents: IDocumentManager | null,
  runId: string,
): Promise<{ panel: NotebookPanel; at: number } | string> {
  const { row, cell } = await client.run(runId);
  if (!row.notebook) {
    return words.noNotebook;
  }
  const panel = await notebookOf(notebooks, documents, row.notebook);
  if (!panel) {
    return words.noCellFound(row.notebook);
  }
  await panel.revealed;
  const sources = panel.content.widgets.map(({ model }) => model.sharedModel.getSource());
  const at = cellOf(sources, cell, row.cellIndex);
  return at < 0 ? words.noCellFound(panel.context.path) : { panel, at };
}

async function notebookOf(
  notebooks: INotebookTracker,
  documents: IDocumentManager | null,
  notebook: string,
): Promise<NotebookPanel | null> {
  const open = notebooks.find(({ context }) => `/${notebook}`.endsWith(`/${context.localPath}`));
  if (open) {
    documents?.openOrReveal(open.context.path);
    return open;
  }
  const path = contentsPath(notebook, PageConfig.getOption('serverRoot'));
  const widget = path === null ? undefined : documents?.openOrReveal(path);
  if (!widget) {
    return null;
  }
  await widget.context.ready;
  return notebooks.find(panel => panel === (widget as unknown)) ?? null;
}

async function runOnRanks({ client, words }: IRunService, notebooks: INotebookTracker): Promise<void> {
  const panel = notebooks.currentWidget;
  const cell = notebooks.activeCell;
  if (!panel || !cell) {
    return;
  }
  // without the server's side the form still writes lines for the CPU
  const gpus: readonly Gpu[] = await client.devices().then(
    devices => devices.gpus,
    () => [],
  );
  const source = cell.model.sharedModel.getSource();
  const before = wantedOf(source);
  let wanted: Wanted | null = before;
  const body = new ViewWidget(async () => {
    const { RanksForm } = await import('../views/RanksForm');
    const onChange = (changed: Wanted | null): void => void (wanted = changed);
    return createElement(RanksForm, { source, before, gpus, words, onChange });
  });
  const { button } = await showDialog({
    title: words.formTitle,
    body,
    buttons: [
      Dialog.cancelButton({ label: words.cancel }),
      Dialog.okButton({ label: words.formWrite }),
      Dialog.okButton({ label: words.formRun, className: 'nbdist-write-and-run' }),
    ],
    defaultButton: 2,
  });
  if (!button.accept || wanted === null) {
    return;
  }
  cell.model.sharedModel.setSource(withFirstLine(source, wanted));
  if (button.label === words.formRun) {
    await NotebookActions.run(panel.content, panel.sessionContext);
  }
}
