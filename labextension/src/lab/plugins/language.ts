/** Tells a kernel which language its page speaks, in front of each cell of nbdist's: notes, summaries and errors
 * come from there. */
import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { NotebookActions, NotebookPanel } from '@jupyterlab/notebook';

import { languageOf } from '../../words';

const OURS = /^\s*%%?dist(ributed|_\w+)/m;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:language',
  description: 'The language of what nbdist says below a cell.',
  autoStart: true,
  activate: (): void => {
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const panel = notebook.parent;
      if (panel instanceof NotebookPanel && OURS.test(cell.model.sharedModel.getSource())) {
        // what is sent first is executed first; nbdist need not be loaded for it
        const told = panel.sessionContext.session?.kernel?.requestExecute({
          code: `__import__("os").environ["NBDIST_PAGE_LANG"] = "${languageOf(document, navigator.language)}"`,
          silent: true,
          store_history: false,
          stop_on_error: false,
        });
        // a kernel that ends takes its cell along
        void told?.done.catch(() => undefined);
      }
    });
  },
};

export default plugin;
