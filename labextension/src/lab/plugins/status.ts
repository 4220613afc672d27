/** How many ranks run, and how busy the GPUs are, in the status bar. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { createElement } from 'react';

import { whenIdle } from '../idle';
import { COMMANDS, IRunService } from '../tokens';
import { ViewWidget } from './view_widget';

const plugin: JupyterFrontEndPlugin<void> = {
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

export default plugin;
