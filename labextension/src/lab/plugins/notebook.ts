/** From a run to its cell, from a cell to a run: reveal, attach, and the form that writes the first line. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, InputDialog, IToolbarWidgetRegistry, Notification, showDialog } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ToolbarButton } from '@jupyterlab/ui-components';
import { createElement } from 'react';

import { actForPanels } from '../../page/actions';
import { words as panelWords } from '../../words/panel';
import { cellAgain, cellOf, type CellSource, contentsPath, isNotebook } from '../cells/run_cell';
import { firstLine, withFirstLine } from '../cells/magic_line';
import type { Gpu } from '../services/client';
import { COMMANDS, IRunService, runIn } from '../tokens';
import { words } from '../../words/lab';
import { ranksIcon, ViewWidget } from './view_widget';

/** bytes of a program that the server tells */
const PROGRAM = 65_536;
/** a cell that starts a run, not one that shows it again */
const STARTS = /^\s*%%?distributed\b/m;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:notebook',
  description: 'Distributed runs from the cells of a notebook.',
  autoStart: true,
  requires: [IRunService, INotebookTracker],
  optional: [IDocumentManager, IToolbarWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    notebooks: INotebookTracker,
    documents: IDocumentManager | null,
    toolbars: IToolbarWidgetRegistry | null,
  ): void => {
    const labelOf = (runId: string): string => service.runs.row(runId)?.label ?? runId;
    const hasNotebook = (given: object): boolean => Boolean(service.runs.row(runIn(given))?.notebook);
    const find = (given: object): Promise<CellPosition | string> =>
      cellOfRun(service, notebooks, documents, runIn(given));
    const atCell = async (given: object, act: (position: CellPosition) => Promise<void>): Promise<void> => {
      const position = await find(given);
      await (typeof position === 'string' ? tell(position) : act(position));
    };

    app.commands.addCommand(COMMANDS.reveal, {
      label: words.reveal,
      isVisible: hasNotebook,
      execute: given => atCell(given, position => reveal(position, Number(given['line'] ?? 0))),
    });
    app.commands.addCommand(COMMANDS.attach, {
      label: words.attach,
      caption: words.attachHint,
      execute: async given => {
        const panel = notebooks.currentWidget;
        const runId = runIn(given);
        // a kernel that is busy would attach later, when the reader has gone on
        if (!panel || panel.sessionContext.session?.kernel?.status === 'busy') {
          await app.commands.execute(COMMANDS.open, { runId });
        } else {
          await runBelow(panel, `%dist_attach ${labelOf(runId)}`);
        }
      },
    });
    app.commands.addCommand(COMMANDS.again, {
      label: panelWords.runAgain,
      isVisible: hasNotebook,
      execute: given => atCell(given, ({ panel, at }) => runCell(panel, at)),
    });
    app.commands.addCommand(COMMANDS.againWith, {
      label: panelWords.runAgainWith,
      isVisible: given => service.runs.row(runIn(given))?.live === false,
      execute: given =>
        atCell(given, async position => tell(await runAgainWith(service, runIn(given), position))),
    });
    app.commands.addCommand(COMMANDS.scale, {
      label: words.scale,
      isVisible: given => service.runs.row(runIn(given))?.live === false,
      execute: async given => {
        const position = await find(given);
        const panel = typeof position === 'string' ? notebooks.currentWidget : position.panel;
        if (!panel) {
          return tell(words.noProgram);
        }
        const { button, value } = await InputDialog.getText({
          title: words.scale,
          label: words.scaleAbout,
          text: '1,2 --for 30s',
          okLabel: words.formInsertRun,
          cancelLabel: words.cancel,
        });
        if (button.accept && value?.trim()) {
          if (typeof position !== 'string') {
            panel.content.activeCellIndex = position.at;
          }
          await runBelow(panel, `%dist_scale ${value.trim()} ${labelOf(runIn(given))}`);
        }
      },
    });
    actForPanels(({ action, runId, label, tab, from }) => {
      const panel = notebooks.find(({ node }) => node.contains(from));
      const at = panel?.content.widgets.findIndex(({ node }) => node.contains(from)) ?? -1;
      const source = panel?.content.widgets[at]?.model.sharedModel.getSource() ?? '';
      if (panel) {
        panel.content.activeCellIndex = at;
      }
      if (action === 'export' || action === 'resume') {
        void (panel && runBelow(panel, `%dist_${action} ${label}`));
      } else if (action === 'again' && panel && STARTS.test(source)) {
        void runCell(panel, at);
      } else if (action === 'againWith' && panel) {
        void runAgainWith(service, runId, { panel, at }).then(tell);
      } else {
        void app.commands.execute(COMMANDS[action], { runId, tab: tab ?? '' });
      }
    });
    const isCode = (): boolean => notebooks.activeCell?.model.type === 'code';
    const form = async (cell: Cell | null): Promise<void> => {
      tell(cell && (await runOnRanks(service, notebooks, cell)));
    };
    app.commands.addCommand(COMMANDS.runOnRanks, {
      label: words.runOnRanks,
      caption: words.runOnRanksHint,
      isEnabled: isCode,
      execute: () => form(notebooks.activeCell),
    });
    // each button knows its cell: the page's current notebook may be another one than that which is clicked
    toolbars?.addFactory<Cell>('Cell', 'nbdist-ranks', cell => {
      const button = new ToolbarButton({
        icon: ranksIcon,
        tooltip: words.runOnRanksHint,
        onClick: () => void form(cell),
      });
      button.setHidden(cell.model.type !== 'code');
      return button;
    });
  },
};

export default plugin;

/** Notify the user of a problem, if there is one. */
function tell(problem: string | null): void {
  if (problem) {
    Notification.info(problem, { autoClose: 6000 });
  }
}

/** Write a line magic into a cell below the active one, and run it. */
async function runBelow(panel: NotebookPanel, magic: string): Promise<void> {
  NotebookActions.insertBelow(panel.content);
  panel.content.activeCell?.model.sharedModel.setSource(magic);
  await NotebookActions.run(panel.content, panel.sessionContext);
}

async function runCell(panel: NotebookPanel, at: number): Promise<void> {
  panel.content.deselectAll();
  panel.content.activeCellIndex = at;
  await NotebookActions.run(panel.content, panel.sessionContext);
}

/** Give the cell around `output` this first line, and run it. */
export async function runWithLine(panel: NotebookPanel, output: Node, line: string): Promise<void> {
  const at = panel.content.widgets.findIndex(({ node }) => node.contains(output));
  const shared = panel.content.widgets[at]?.model.sharedModel;
  if (shared && firstLine(shared.getSource())) {
    shared.setSource(withFirstLine(shared.getSource(), line));
    await runCell(panel, at);
  }
}

/** Go to a cell, and to a line of it (0 for none). */
async function reveal({ panel, at }: CellPosition, line: number): Promise<void> {
  const cell = panel.content.widgets[at]!;
  panel.content.activeCellIndex = at;
  await panel.content.scrollToCell(cell, 'smart');
  if (line > 0) {
    await showLine(cell, line);
  }
}

/** Open the notebook of a run; return the position of its cell, or the problem. */
async function cellOfRun(
  { client }: IRunService,
  notebooks: INotebookTracker,
  documents: IDocumentManager | null,
  runId: string,
): Promise<CellPosition | string> {
  const { row, cell } = await client.run(runId);
  if (!row.notebook) {
    return words.noNotebook;
  }
  const panel = await notebookOf(notebooks, documents, row.notebook);
  if (!panel) {
    return words.noCellFound(row.notebook);
  }
  await panel.revealed;
  const at = cellOf(cellsOf(panel), cell, row.cellId);
  return at < 0 ? words.noCellFound(panel.context.path) : { panel, at };
}

async function notebookOf(
  notebooks: INotebookTracker,
  documents: IDocumentManager | null,
  notebook: string,
): Promise<NotebookPanel | null> {
  const open = notebooks.find(({ context }) => isNotebook(notebook, context.localPath));
  if (open) {
    documents?.openOrReveal(open.context.path);
    return open;
  }
  const path = contentsPath(notebook, PageConfig.getOption('serverRoot'));
  // of a notebook that has gone the page would show an error, and never be ready
  const contents = path !== null && documents?.services.contents.get(path, { content: false });
  const widget = (await Promise.resolve(contents).catch(() => null)) && documents?.openOrReveal(path!);
  if (!widget) {
    return null;
  }
  await widget.context.ready;
  return notebooks.find(panel => panel === (widget as unknown)) ?? null;
}

export function cellsOf({ content }: NotebookPanel): readonly CellSource[] {
  return content.widgets.map(({ model: { sharedModel } }) => ({
    id: sharedModel.getId(),
    source: sharedModel.getSource(),
  }));
}

/** Show the form for a cell; return its first line and true to run it, or null when it was cancelled. */
async function askLine(
  { client }: IRunService,
  source: string,
  title: string,
  [write, run]: readonly [string, string],
): Promise<{ line: string; run: boolean } | null> {
  const before = firstLine(source) ?? '%%distributed -n 2';
  let line = before;
  // without the server's side the form still writes lines for the CPU
  const gpus: readonly Gpu[] = await client.devices().then(
    devices => devices.gpus,
    () => [],
  );
  const body = new ViewWidget(async () => {
    const { RanksForm } = await import('../views/RanksForm');
    const onChange = (changed: string): void => void (line = changed);
    return createElement(RanksForm, { before, gpus, onChange });
  });
  const { button } = await showDialog({
    title,
    body,
    buttons: [
      Dialog.cancelButton({ label: words.cancel }),
      Dialog.okButton({ label: write }),
      Dialog.okButton({ label: run, className: 'nbdist-write-and-run' }),
    ],
    defaultButton: 2,
  });
  return button.accept && firstLine(line) ? { line, run: button.label === run } : null;
}

/** Show the form and write its line into this cell; return the problem, if any. */
async function runOnRanks(service: IRunService, notebooks: INotebookTracker, cell: Cell): Promise<string> {
  const { sharedModel } = cell.model;
  const answer = await askLine(service, sharedModel.getSource(), words.formTitle, [
    words.formWrite,
    words.formRun,
  ]);
  if (!answer) {
    return '';
  }
  const panel = notebooks.find(({ content }) => content.widgets.includes(cell));
  if (!panel) {
    return words.noCellFound('');
  }
  sharedModel.setSource(withFirstLine(sharedModel.getSource(), answer.line));
  if (answer.run) {
    await runCell(panel, panel.content.widgets.indexOf(cell));
  }
  return '';
}

interface CellPosition {
  panel: NotebookPanel;
  at: number;
}

/** Show the form for a copy of a run's cell, and insert it below the cell; a script has no form. Return the problem, if
 * any. */
async function runAgainWith(
  service: IRunService,
  runId: string,
  { panel, at }: CellPosition,
): Promise<string> {
  const { cell, line } = await service.client.run(runId);
  // of a program that is longer the server has told the begin
  if (!line || new TextEncoder().encode(cell).length >= PROGRAM) {
    return words.noProgram;
  }
  const source = cellAgain(cellsOf(panel), cell, line);
  const answer = firstLine(source)
    ? await askLine(service, source, panelWords.runAgainWith, [words.formInsert, words.formInsertRun])
    : { line: '', run: false };
  if (!answer) {
    return '';
  }
  panel.content.activeCellIndex = at;
  NotebookActions.insertBelow(panel.content);
  const { activeCellIndex, activeCell } = panel.content;
  activeCell?.model.sharedModel.setSource(answer.line ? withFirstLine(source, answer.line) : source);
  if (answer.run) {
    await runCell(panel, activeCellIndex);
  }
  return '';
}

/** Select the line (1 is the editor's first) and bring it into view. */
export async function showLine(cell: Cell, line: number): Promise<void> {
  await cell.ready;
  if (cell.editor) {
    showEditorLine(cell.editor, line);
  }
}

export function showEditorLine(editor: CodeEditor.IEditor, line: number): void {
  const at = line - 1;
  const text = editor.getLine(at);
  if (text === undefined) {
    return;
  }
  editor.setSelection({ start: { line: at, column: 0 }, end: { line: at, column: text.length } });
  editor.revealPosition({ line: at, column: 0 });
  editor.focus();
}
