/** In a notebook, what names a line of the cell leads to that line of the editor: in the panel, in its summary, and
 * in the error below it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';

import '../styles/links.css';
import { contentsPath } from '../cells/run_cell';
import { addButtons, addMendingButton, linkedLine, linkLines, MENDED, SUMMARY } from '../cells/output_links';
import { IRunService } from '../tokens';
import { runWithLine, showEditorLine, showLine } from './notebook';

const ERROR =
  '.jp-RenderedText[data-mime-type="application/vnd.jupyter.error"], .jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]';

const FILE = '[data-nbdist-file]';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:lines',
  description: 'From an error to the line of its cell.',
  autoStart: true,
  // the service sets the page's language
  requires: [INotebookTracker, IRunService],
  optional: [IDocumentManager],
  activate: (
    _app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    _service: IRunService,
    documents: IDocumentManager | null,
  ): void => {
    // captured: the panel keeps its own clicks from the notebook
    document.addEventListener(
      'click',
      event => {
        const file = event.target instanceof Element && event.target.closest<HTMLElement>(FILE);
        if (file && documents) {
          void openFile(documents, file.dataset['nbdistFile']!, Number(file.dataset['nbdistLine']));
        }
        const line = event.target instanceof Element ? linkedLine(event.target) : null;
        const node = line === null ? null : (event.target as Element).closest('.jp-Cell');
        const panel = notebooks.find(each => each.node.contains(node));
        const cell = panel?.content.widgets.find(each => each.node === node);
        if (line !== null && cell) {
          void showLine(cell, line);
        }
      },
      true,
    );
    notebooks.widgetAdded.connect((_sender, panel) => followOutputs(panel));
  },
};

export default plugin;

/** Open a file of the user's at a line; a file outside of the server's folder cannot be opened. */
async function openFile(documents: IDocumentManager, file: string, line: number): Promise<void> {
  const path = contentsPath(file, PageConfig.getOption('serverRoot'));
  const widget = path === null ? undefined : documents.openOrReveal(path, 'Editor');
  await widget?.context.ready;
  const { editor } = (widget?.content ?? {}) as { editor?: CodeEditor.IEditor };
  if (editor) {
    showEditorLine(editor, line);
  }
}

/** Follow the outputs of a notebook: those of runs that failed get links, summaries buttons. */
function followOutputs(panel: NotebookPanel): void {
  const { content } = panel;
  const decorate = (node: Element): void => {
    for (const error of node.matches(ERROR) ? [node] : node.querySelectorAll(ERROR)) {
      if (error.textContent?.includes('RunFailed')) {
        linkLines(error);
      }
    }
    node.querySelectorAll<HTMLElement>(SUMMARY).forEach(summary => addButtons(summary));
    node
      .querySelectorAll<HTMLElement>(MENDED)
      .forEach(place => addMendingButton(place, line => void runWithLine(panel, place, line)));
  };
  const observer = new MutationObserver(changes => {
    for (const { target, addedNodes } of changes) {
      // the rows of a panel's log come and go ten times a second
      if (addedNodes.length && !(target as Element).closest('.nbdist')) {
        const output = (target as Element).closest(ERROR);
        addedNodes.forEach(node => node instanceof Element && decorate(output ?? node));
      }
    }
  });
  observer.observe(content.node, { childList: true, subtree: true });
  content.disposed.connect(() => observer.disconnect());
}
