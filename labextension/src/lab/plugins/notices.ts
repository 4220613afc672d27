/** Says so when a run ends or stalls, to a reader of the page who cannot see it in the run's cell. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { clock } from '../../numbers';
import { announcements, secondsOf, type Wish } from '../announcements';
import { isNotebook } from '../places';
import type { RunRow } from '../rows';
import type { RunEvent } from '../runs';
import { COMMANDS, IRunService } from '../tokens';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:notices',
  description: 'Notices when a run ends or stalls.',
  autoStart: true,
  requires: [IRunService],
  optional: [ISettingRegistry, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    registry: ISettingRegistry | null,
    notebooks: INotebookTracker | null,
  ): void => {
    // asked for when it is first needed: a registry that is still reading settings does not take it well
    const wishOf = async (): Promise<Wish> =>
      ((await registry?.load(plugin.id))?.get('notices').composite as Wish | undefined) ?? 'all';
    service.runs.onEvent(
      announcements({
        wish: wishOf,
        sees: row => notebooks !== null && isSeen(notebooks, row),
        announce: event => notify(app, service, event),
        withdraw: id => Notification.dismiss(id),
      }),
    );
  },
};

export default plugin;

/** Whether the run's cell, and so its panel, is on the screen. */
function isSeen(notebooks: INotebookTracker, { notebook, cellId }: RunRow): boolean {
  const panel = notebooks.find(each => each.isVisible && isNotebook(notebook, each.context.localPath));
  const cell = panel?.content.widgets.find(({ model }) => model.sharedModel.getId() === cellId);
  if (!panel || !cell?.isAttached || document.hidden) {
    return false;
  }
  const page = panel.content.node.getBoundingClientRect();
  const { top, bottom } = cell.node.getBoundingClientRect();
  return bottom > page.top && top < page.bottom;
}

function notify(app: JupyterFrontEnd, { words, panelWords }: IRunService, { kind, row }: RunEvent): string {
  const said = panelWords.told;
  const { runId, label } = row;
  const act = (command: string) => () => void app.commands.execute(command, { runId });
  const actions = [
    { label: words.open, callback: act(COMMANDS.open) },
    ...(row.notebook ? [{ label: words.reveal, callback: act(COMMANDS.reveal) }] : []),
  ];
  if (kind === 'stalled') {
    return Notification.warning(words.noticeStalled(label), { actions, autoClose: false });
  }
  const took = clock(secondsOf(row));
  switch (row.state) {
    case 'succeeded':
      return Notification.success(words.noticeFinished(label, took), { actions, autoClose: 6000 });
    case 'cancelled':
      return Notification.info(words.noticeStopped(label), { actions, autoClose: 4000 });
    default:
      return Notification.error(words.noticeFailed(label, said(row.headline) || said(row.reason)), {
        actions,
        autoClose: 15_000,
      });
  }
}
