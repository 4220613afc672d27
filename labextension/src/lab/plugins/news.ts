/** News for a reader who looks elsewhere: the status bar, and notices when a run ends or stalls. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { createElement } from 'react';

import { clock } from '../../numbers';
import { localized } from '../../words';
import { isNotebook } from '../cells';
import type { RunRow } from '../client';
import { announcements, type RunEvent, secondsOf, type NoticeLevel } from '../runs';
import { COMMANDS, IRunService, whenIdle } from '../tokens';
import { labWords } from '../words';
import { ViewWidget } from './view_widget';

const status: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:status',
  description: 'Running ranks and GPUs in the status bar.',
  autoStart: true,
  requires: [IRunService],
  optional: [IStatusBar, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    bar: IStatusBar | null,
    settings: ISettingRegistry | null,
  ): void => {
    if (!bar) {
      return;
    }
    const item = new ViewWidget(async () => {
      const { StatusItem } = await import('../views/StatusItem');
      const wishes = await settings?.load('nbdist:notices');
      const gpus = wishes?.get('gpusInStatusBar').composite !== false;
      const onOpen = (): void => void app.commands.execute(COMMANDS.show);
      return createElement(StatusItem, { service, gpus, onOpen });
    });
    item.removeClass('nbdist-place');
    // the page's own start comes first
    void whenIdle(app).then(() => bar.registerStatusItem('nbdist:status', { item, align: 'left', rank: 80 }));
  },
};

const notices: JupyterFrontEndPlugin<void> = {
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
    const levelOf = async (): Promise<NoticeLevel> =>
      ((await registry?.load(notices.id))?.get('notices').composite as NoticeLevel | undefined) ?? 'all';
    service.runs.onEvent(
      announcements({
        level: levelOf,
        sees: row => notebooks !== null && isSeen(notebooks, row),
        announce: event => notify(app, event),
        withdraw: id => Notification.dismiss(id),
      }),
    );
  },
};

export default [status, notices];

/** Return true when the run's cell, and so its panel, is on the screen. */
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

function notify(app: JupyterFrontEnd, { kind, row }: RunEvent): string {
  const words = labWords();
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
    case 'finished':
      return Notification.success(words.noticeFinished(label, took), { actions, autoClose: 6000 });
    case 'stopped':
      return Notification.info(words.noticeStopped(label), { actions, autoClose: 4000 });
    default:
      return Notification.error(words.noticeFailed(label, localized(row.headline) || localized(row.reason)), {
        actions,
        autoClose: 15_000,
      });
  }
}
