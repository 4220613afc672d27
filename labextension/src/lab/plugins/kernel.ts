/** Prepares the kernel ahead of a cell that uses nbdist. A kernel runs its requests in order, so the cell finds nbdist
 * loaded; where it is already, this costs a millisecond. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import type { Cell } from '@jupyterlab/cells';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

import { languageOf } from '../../words/languages';
import { type Magic, usedMagic } from '../cells/magic_line';
import { IRunService } from '../tokens';
import { words } from '../../words/lab';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:loading',
  description: 'Loads nbdist in the kernel for the first cell that uses it, in the page’s language.',
  autoStart: true,
  // the service sets the page's language
  requires: [IRunService],
  activate: (): void => {
    // a cell may bring nbdist itself: the notice waits for its end
    const without = new Set<Cell>();
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const magic = usedMagic(cell.model.sharedModel.getSource());
      const panel = notebook.parent;
      if (magic && panel instanceof NotebookPanel) {
        without.delete(cell);
        void load(panel, magic).then(loaded => loaded || without.add(cell));
      }
    });
    NotebookActions.executed.connect((_sender, { notebook: { parent }, cell, success }) => {
      const kernel = parent instanceof NotebookPanel && parent.sessionContext.session?.kernel;
      if (kernel) {
        // a prompt of held ranks that went on by another one stays unanswered: JupyterLab would run no cell any more
        kernel.hasPendingInput = false;
      }
      if (without.delete(cell) && !success) {
        Notification.error(words.notInKernel, { autoClose: 15_000 });
      }
    });
  },
};

export default plugin;

/** Return code that loads nbdist as `%load_ext` does, and leaves no name in the namespace; notes, summaries and errors
 * come from the kernel, in the language that it is told. */
const LOAD = (isLoaded: string): string => `__import__("os").environ["NBDIST_PAGE_LANG"] = "${languageOf()}"
try:
    ${isLoaded} or __import__('nbdist').load_ipython_extension(get_ipython())
except ModuleNotFoundError:
    pass
`;

/** Load nbdist; return true when the kernel has the magic now, or where that cannot be known. */
async function load({ sessionContext }: NotebookPanel, { kind, name }: Magic): Promise<boolean> {
  const kernel = sessionContext.session?.kernel;
  const spec = kernel && sessionContext.specsManager.specs?.kernelspecs[kernel.name];
  if (!kernel || (spec && spec.language.toLowerCase() !== 'python')) {
    return true;
  }
  const lookup = `get_ipython().find_${kind}_magic('${name}')`;
  try {
    const { content } = await kernel.requestExecute({
      code: LOAD(lookup),
      silent: true,
      store_history: false,
      // what goes wrong here is for the cell to say
      stop_on_error: false,
      // of any magic: one that this nbdist has not is for the cell to say
      user_expressions: { loaded: "get_ipython().find_cell_magic('distributed') is not None" },
    }).done;
    const loaded = content.status === 'ok' && content.user_expressions['loaded'];
    return !loaded || !JSON.stringify(loaded).includes('"False"');
  } catch {
    return true; // the kernel was restarted, or has gone
  }
}
