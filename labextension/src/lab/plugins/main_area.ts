/** Opens runs in the main area: one as a dashboard, which comes back when the page is loaded again, or several beside
 * each other. */
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { createElement } from 'react';

import type { RunControls } from '../../views/RunPage';
import { COMMANDS, type Execute, IRunService, runIn } from '../tokens';
import { words } from '../../words/lab';
import { bringUp, ranksIcon, RunWidget, ViewWidget } from './view_widget';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:main-area',
  description: 'Runs in the main area.',
  autoStart: true,
  requires: [IRunService],
  optional: [ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
  ): void => {
    const tracker = new WidgetTracker<DashboardWidget>({ namespace: 'nbdist-dashboards' });
    app.commands.addCommand(COMMANDS.open, {
      label: words.open,
      execute: args => {
        const runId = runIn(args);
        if (!runId) {
          return;
        }
        let widget = tracker.find(open => open.runId === runId);
        if (!widget) {
          widget = new DashboardWidget(service, runId, executeIn(app));
          add(app, lab, widget, 'Distributed run');
          void tracker.add(widget);
        }
        show(app, lab, widget);
        if (args['tab'] === 'all' || args['tab'] === 'metrics') {
          widget.select(args['tab']);
        }
      },
    });
    void restorer?.restore(tracker, {
      command: COMMANDS.open,
      args: ({ runId }) => ({ runId }),
      name: ({ runId }) => runId,
    });
    app.commands.addCommand(COMMANDS.compare, {
      label: args => {
        const { length } = chosen(args);
        return length > 1 ? words.compare(length) : words.compareTitle;
      },
      isVisible: args => chosen(args).length > 1,
      execute: args => {
        const runIds = chosen(args);
        if (runIds.length > 1) {
          const widget = comparisonOf(app, service, runIds);
          add(app, lab, widget, 'Distributed runs');
          show(app, lab, widget);
        }
      },
    });
  },
};

export default plugin;

/** Return the ids, the oldest first: they begin with the time. */
function chosen({ runIds }: { runIds?: unknown }): string[] {
  return Array.isArray(runIds) ? runIds.map(String).sort() : [];
}

/** Add a new widget, with a tab of its own. */
function add({ shell }: JupyterFrontEnd, lab: ILabShell | null, widget: ViewWidget, type: string): void {
  widget.title.icon = ranksIcon;
  widget.title.closable = true;
  // Notebook 7 has one place in its main area, which the notebook has
  widget.toggleClass('nbdist-below', !lab);
  shell.add(widget, lab ? 'main' : 'down', { type });
}

/** Bring a widget to the front. */
function show(app: JupyterFrontEnd, lab: ILabShell | null, widget: ViewWidget): void {
  app.shell.activateById(widget.id);
  if (!lab) {
    bringUp(widget);
  }
}

class DashboardWidget extends RunWidget {
  private page: RunControls | null = null;
  private wanted: 'all' | 'metrics' | null = null;

  constructor(service: IRunService, runId: string, execute: Execute) {
    super(service, runId, async model => {
      const { Dashboard } = await import('../views/Dashboard');
      return createElement(Dashboard, { runId, model, service, execute, onControls: this.drawn });
    });
    this.id = `nbdist-run-${runId}`;
    this.title.label = service.runs.row(runId)?.label ?? runId.replace(/^\d+-\d+-/, '');
    this.title.caption = runId;
  }

  /** Show a tab, once there are any. */
  select(tab: 'all' | 'metrics'): void {
    this.wanted = this.page ? null : tab;
    this.page?.select(tab);
  }

  private readonly drawn = (page: RunControls): void => {
    this.page = page;
    if (this.wanted !== null) {
      this.select(this.wanted);
    }
  };
}

let opened = 0;

function comparisonOf(app: JupyterFrontEnd, service: IRunService, runIds: readonly string[]): ViewWidget {
  const execute = executeIn(app);
  const widget = new ViewWidget(async () => {
    const { Comparison } = await import('../views/Comparison');
    return createElement(Comparison, { runIds, service, execute });
  });
  opened += 1;
  widget.id = `nbdist-comparison-${opened}`;
  widget.title.label = words.compareTitle;
  return widget;
}

function executeIn(app: JupyterFrontEnd): Execute {
  return (command, args) => void app.commands.execute(command, { ...args });
}
