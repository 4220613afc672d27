/** News for a reader who looks elsewhere: the status bar, and notices when a run ends or stalls. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { createElement } from 'react';

import { clock } from '../../words/formats';
import { localized } from '../../words/languages';
import { isNotebook } from '../cells/run_cell';
import type { RunRow } from '../services/client';
import { announcements, type RunEvent, secondsOf, type NoticeLevel } from '../services/runs';
import { titleOf } from '../views/title';
import { COMMANDS, IRunService, whenIdle } from '../tokens';
import { words } from '../../words/lab';
import { ViewWidget } from './view_widget';

const status: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:status',
  description: 'Running ranks in the status bar.',
  autoStart: true,
  requires: [IRunService],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, service: IRunService, bar: IStatusBar | null): void => {
    const item = new ViewWidget(async () => {
      const { StatusItem } = await import('../views/StatusItem');
      const onOpen = (): void => void app.commands.execute(COMMANDS.show);
      return createElement(StatusItem, { service, onOpen });
    });
    item.removeClass('nbdist-place');
    // the page's own start comes first
    void whenIdle(app).then(() =>
      bar?.registerStatusItem('nbdist:status', { item, align: 'left', rank: 80 }),
    );
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
    const setting = async (name: string): Promise<unknown> =>
      (await registry?.load(notices.id))?.get(name).composite;
    const isWantedOutside = async (): Promise<boolean> => (await setting('outsideThePage')) === true;
    service.runs.events.subscribe(
      announcements({
        level: async () => ((await setting('notices')) ?? 'all') as NoticeLevel,
        sees: row => notebooks !== null && isSeen(notebooks, row),
        announce: event => {
          void isWantedOutside().then(wanted => wanted && tellOutside(event));
          return notify(app, event);
        },
        withdraw: id => Notification.dismiss(id),
      }),
    );
    service.runs.subscribe(() => {
      const title = titleOf(document.title, service.runs.rows);
      if (title !== document.title) {
        document.title = title;
      }
    });
    // the browser asks the user once
    void whenIdle(app)
      .then(isWantedOutside)
      .then(async wanted => {
        if (wanted && 'Notification' in window) {
          await window.Notification.requestPermission();
        }
      });
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

/** Show a notice of the browser, which is seen though another window is in front. */
function tellOutside(event: RunEvent): void {
  if ('Notification' in window && window.Notification.permission === 'granted' && !document.hasFocus()) {
    new window.Notification(sentence(event), { tag: `nbdist-${event.row.runId}-${event.kind}` });
  }
}

function sentence({ kind, row }: RunEvent): string {
  if (kind === 'stalled') {
    return words.noticeStalled(row.label);
  }
  switch (row.state) {
    case 'finished':
      return words.noticeFinished(row.label, clock(secondsOf(row)));
    case 'stopped':
      return words.noticeStopped(row.label);
    default:
      return words.noticeFailed(row.label, localized(row.headline) || localized(row.reason));
  }
}

/** The look of a notice, and the milliseconds until it goes by itself. */
const LOOKS = {
  stalled: ['warning', false],
  finished: ['success', 6000],
  stopped: ['info', 4000],
  failed: ['error', 15_000],
} as const;

function notify(app: JupyterFrontEnd, event: RunEvent): string {
  const { runId, notebook } = event.row;
  const act = (command: string) => () => void app.commands.execute(command, { runId });
  const actions = [
    { label: words.open, callback: act(COMMANDS.open) },
    ...(notebook ? [{ label: words.reveal, callback: act(COMMANDS.reveal) }] : []),
  ];
  const outcome = event.kind === 'stalled' ? event.kind : event.row.state;
  const [type, autoClose] = outcome in LOOKS ? LOOKS[outcome as keyof typeof LOOKS] : LOOKS.failed;
  return Notification.emit(sentence(event), type, { actions, autoClose });
}
