/** Opens runs in the main area: a tab for each, which comes back when the page is loaded again. */
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { createElement } from 'react';

import type { Follower } from '../follower';
import { COMMANDS, IRunService, runIn } from '../tokens';
import type { DashboardTab } from '../views/DashboardTabs';
import { ranksIcon } from './icons';
import { bringUp, ViewWidget } from './view_widget';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:dashboard',
  description: 'A run in the main area.',
  autoStart: true,
  requires: [IRunService],
  optional: [ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
  ): void => {
    const tracker = new WidgetTracker<ViewWidget>({ namespace: 'nbdist-dashboards' });
    const runOf = new WeakMap<ViewWidget, string>();
    const pages = new WeakMap<ViewWidget, Pages>();
    app.commands.addCommand(COMMANDS.open, {
      label: service.words.open,
      describedBy: {
        args: { type: 'object', properties: { runId: { type: 'string' }, tab: { type: 'string' } } },
      },
      execute: args => {
        const runId = runIn(args);
        if (!runId) {
          return;
        }
        const id = `nbdist-run-${runId}`;
        let widget = tracker.find(open => open.id === id);
        if (!widget || widget.isDisposed) {
          const made = new Pages();
          widget = dashboard(app, service, runId, made);
          pages.set(widget, made);
          widget.id = id;
          runOf.set(widget, runId);
          // Notebook 7 has one place in its main area, which the notebook has
          widget.toggleClass('nbdist-below', !lab);
          app.shell.add(widget, lab ? 'main' : 'down', { type: 'Distributed run' });
          void tracker.add(widget);
        }
        if (args['tab'] === 'all' || args['tab'] === 'metrics') {
          pages.get(widget)?.show(args['tab']);
        }
        app.shell.activateById(id);
        if (!lab) {
          bringUp(widget);
        }
      },
    });
    void restorer?.restore(tracker, {
      command: COMMANDS.open,
      args: widget => ({ runId: runOf.get(widget) ?? '' }),
      name: widget => runOf.get(widget) ?? '',
    });
  },
};

export default plugin;

/** Which tab of a dashboard was asked for, perhaps before it was drawn. */
class Pages {
  private wanted: DashboardTab | null = null;
  private select: ((tab: DashboardTab) => void) | null = null;

  readonly drawn = (select: (tab: DashboardTab) => void): void => {
    this.select = select;
    if (this.wanted !== null) {
      this.show(this.wanted);
    }
  };

  show(tab: DashboardTab): void {
    this.wanted = this.select ? null : tab;
    this.select?.(tab);
  }
}

function dashboard(app: JupyterFrontEnd, service: IRunService, runId: string, pages: Pages): ViewWidget {
  let follower: Follower | null = null;
  const widget = new ViewWidget(
    async () => {
      const [{ Dashboard }, { Follower }] = await Promise.all([
        import('../views/Dashboard'),
        import('../follower'),
      ]);
      follower = new Follower(service, runId);
      follower.look(widget.isVisible);
      if (widget.isDisposed) {
        follower.end();
      }
      const execute = (command: string, args: object): void =>
        void app.commands.execute(command, { ...args });
      const onTabs = pages.drawn;
      return createElement(Dashboard, { runId, model: follower.model, service, execute, onTabs });
    },
    seen => follower?.look(seen),
  );
  widget.title.icon = ranksIcon;
  widget.title.closable = true;
  widget.title.label = service.runs.row(runId)?.label ?? runId.replace(/^\d+-\d+-/, '');
  widget.title.caption = runId;
  widget.disposed.connect(() => follower?.end());
  return widget;
}
