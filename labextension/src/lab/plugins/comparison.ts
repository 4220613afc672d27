/** Opens several runs side by side. */
import { ILabShell, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { createElement } from 'react';

import type { Follower } from '../follower';
import { COMMANDS, IRunService } from '../tokens';
import { ranksIcon } from './icons';
import { bringUp, ViewWidget } from './view_widget';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:comparison',
  description: 'The curves of several runs over each other.',
  autoStart: true,
  requires: [IRunService],
  optional: [ILabShell],
  activate: (app: JupyterFrontEnd, service: IRunService, lab: ILabShell | null): void => {
    app.commands.addCommand(COMMANDS.compare, {
      label: args =>
        chosen(args).length > 1 ? service.words.compare(chosen(args).length) : service.words.compareTitle,
      isVisible: args => chosen(args).length > 1,
      describedBy: {
        args: { type: 'object', properties: { runIds: { type: 'array', items: { type: 'string' } } } },
      },
      execute: args => {
        const runIds = chosen(args);
        if (runIds.length < 2) {
          return;
        }
        const widget = comparison(app, service, runIds);
        widget.toggleClass('nbdist-below', !lab);
        app.shell.add(widget, lab ? 'main' : 'down', { type: 'Distributed runs' });
        app.shell.activateById(widget.id);
        if (!lab) {
          bringUp(widget);
        }
      },
    });
  },
};

export default plugin;

function chosen({ runIds }: { runIds?: unknown }): string[] {
  return Array.isArray(runIds) ? runIds.map(String) : [];
}

let opened = 0;

function comparison(app: JupyterFrontEnd, service: IRunService, runIds: readonly string[]): ViewWidget {
  let followers: readonly Follower[] = [];
  const widget = new ViewWidget(
    async () => {
      const [{ Comparison }, { Follower }] = await Promise.all([
        import('../views/Comparison'),
        import('../follower'),
      ]);
      followers = runIds.map(runId => new Follower(service, runId));
      followers.forEach(follower => (widget.isDisposed ? follower.end() : follower.look(widget.isVisible)));
      const execute = (command: string, args: { runId: string }): void =>
        void app.commands.execute(command, args);
      const models = followers.map(({ model }) => model);
      return createElement(Comparison, { runIds, models, service, execute });
    },
    seen => followers.forEach(follower => follower.look(seen)),
  );
  opened += 1;
  widget.id = `nbdist-comparison-${opened}`;
  widget.title.icon = ranksIcon;
  widget.title.closable = true;
  widget.title.label = service.words.compareTitle;
  widget.disposed.connect(() => followers.forEach(follower => follower.end()));
  return widget;
}
