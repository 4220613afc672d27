/** Says so when a run ends or does nothing any more, wherever in the page one is. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { clock } from '../../numbers';
import type { RunRow } from '../rows';
import type { RunEvent } from '../runs';
import { COMMANDS, IRunService } from '../tokens';

type Wish = 'all' | 'problems' | 'none';

/** seconds: who starts a run that is shorter is still looking when it ends */
const SHORT = 10;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:notices',
  description: 'Notices when a run ends or stalls.',
  autoStart: true,
  requires: [IRunService],
  optional: [ISettingRegistry],
  activate: (app: JupyterFrontEnd, service: IRunService, registry: ISettingRegistry | null): void => {
    // asked for when it is first needed: a registry that is still reading settings does not take it well
    const wishOf = async (): Promise<Wish> =>
      ((await registry?.load(plugin.id))?.get('notices').composite as Wish | undefined) ?? 'all';
    service.runs.onEvent(event => {
      const { kind, row } = event;
      const problem = kind === 'stalled' || row.state === 'failed' || row.state === 'lost';
      void wishOf().then(wish => {
        if (problem ? wish !== 'none' : wish === 'all' && secondsOf(row) >= SHORT) {
          notify(app, service, event);
        }
      });
    });
  },
};

export default plugin;

function secondsOf({ created, started, ended }: RunRow): number {
  return (ended ?? created) - (started ?? created);
}

function notify(app: JupyterFrontEnd, { words, panelWords }: IRunService, { kind, row }: RunEvent): void {
  const said = panelWords.told;
  const { runId, label } = row;
  const act = (command: string) => () => void app.commands.execute(command, { runId });
  const actions = [
    { label: words.open, callback: act(COMMANDS.open) },
    ...(row.notebook ? [{ label: words.reveal, callback: act(COMMANDS.reveal) }] : []),
  ];
  if (kind === 'stalled') {
    Notification.warning(words.noticeStalled(label), { actions, autoClose: false });
    return;
  }
  const took = clock(secondsOf(row));
  switch (row.state) {
    case 'succeeded':
      Notification.success(words.noticeFinished(label, took), { actions, autoClose: 6000 });
      break;
    case 'cancelled':
      Notification.info(words.noticeStopped(label), { actions, autoClose: 4000 });
      break;
    default:
      Notification.error(words.noticeFailed(label, said(row.headline) || said(row.reason)), {
        actions,
        autoClose: 15_000,
      });
  }
}
