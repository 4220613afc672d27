/**
 * nbdist in the kernel of a notebook: in front of a cell that uses it, the kernel is asked to load it. A kernel
 * takes its requests in order, so the cell finds it there, and one that has it loses a millisecond.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';

import { usedMagic, type Magic } from '../first_line';
import { IRunService } from '../tokens';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:loading',
  description: 'Loads nbdist in the kernel for the first cell that uses it.',
  autoStart: true,
  requires: [IRunService, INotebookTracker],
  activate: (_app: JupyterFrontEnd, { words }: IRunService, notebooks: INotebookTracker): void => {
    NotebookActions.executionScheduled.connect((_sender, { notebook, cell }) => {
      const magic = usedMagic(cell.model.sharedModel.getSource());
      const panel = magic && notebooks.find(({ content }) => content === notebook);
      if (panel) {
        void load(panel, magic).then(
          there => there || Notification.error(words.notInKernel, { autoClose: 15_000 }),
        );
      }
    });
  },
};

export default plugin;

/** Leaves no name in the notebook's namespace. As `%load_ext nbdist`, which may still follow and says nothing. */
const LOAD = (found: string): string => `try:
    ${found} or __import__('nbdist').load_ipython_extension(get_ipython())
except ModuleNotFoundError:
    pass
`;

/** Whether the kernel has the magic now; true, too, where that cannot be known. */
async function load({ sessionContext }: NotebookPanel, { kind, name }: Magic): Promise<boolean> {
  const kernel = sessionContext.session?.kernel;
  const spec = kernel && sessionContext.specsManager.specs?.kernelspecs[kernel.name];
  if (!kernel || (spec && spec.language.toLowerCase() !== 'python')) {
    return true;
  }
  const found = `get_ipython().find_${kind}_magic('${name}')`;
  try {
    const { content } = await kernel.requestExecute({
      code: LOAD(found),
      silent: true,
      store_history: false,
      // what goes wrong here is for the cell to say
      stop_on_error: false,
      user_expressions: { there: `${found} is not None` },
    }).done;
    return content.status !== 'ok' || !JSON.stringify(content.user_expressions['there']).includes('False');
  } catch {
    return true; // the kernel was restarted, or has gone
  }
}
