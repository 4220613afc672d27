/** Opens runs in the main area: one as a dashboard, which comes back when the page is loaded again, or several beside
 * each other. */
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import { createElement, type ReactElement } from 'react';

import type { RunModel } from '../../model/run_model';
import type { RunControls } from '../../views/RunPage';
import type { Follower } from '../services/follower';
import { COMMANDS, type Execute, IRunService, runIn, takes } from '../tokens';
import { labWords } from '../../words/lab';
import { bringUp, ranksIcon, ViewWidget } from './view_widget';

const dashboard: JupyterFrontEndPlugin<void> = {
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
    const tracker = new WidgetTracker<RunWidget>({ namespace: 'nbdist-dashboards' });
    app.commands.addCommand(COMMANDS.open, {
      label: labWords().open,
      describedBy: takes('runId', 'tab'),
      execute: args => {
        const runId = runIn(args);
        if (!runId) {
          return;
        }
        let widget = tracker.find(open => open.runId === runId);
        if (!widget || widget.isDisposed) {
          widget = dashboardOf(app, service, runId);
          show(app, lab, widget, 'Distributed run');
          void tracker.add(widget);
        } else {
          show(app, lab, widget, '');
        }
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
  },
};

const comparison: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:comparison',
  description: 'Several runs beside each other.',
  autoStart: true,
  requires: [IRunService],
  optional: [ILabShell],
  activate: (app: JupyterFrontEnd, service: IRunService, lab: ILabShell | null): void => {
    const words = labWords();
    app.commands.addCommand(COMMANDS.compare, {
      label: args => {
        const { length } = chosen(args);
        return length > 1 ? words.compare(length) : words.compareTitle;
      },
      isVisible: args => chosen(args).length > 1,
      describedBy: {
        args: { type: 'object', properties: { runIds: { type: 'array', items: { type: 'string' } } } },
      },
      execute: args => {
        const runIds = chosen(args);
        if (runIds.length > 1) {
          show(app, lab, comparisonOf(app, service, runIds), 'Distributed runs');
        }
      },
    });
  },
};

export default [dashboard, comparison];

/** Return the ids, the oldest first: they begin with the time. */
function chosen({ runIds }: { runIds?: unknown }): string[] {
  return Array.isArray(runIds) ? runIds.map(String).sort() : [];
}

/** Bring a widget to the front; one of some `type` is new. */
function show(app: JupyterFrontEnd, lab: ILabShell | null, widget: ViewWidget, type: string): void {
  if (type) {
    // Notebook 7 has one place in its main area, which the notebook has
    widget.toggleClass('nbdist-below', !lab);
    app.shell.add(widget, lab ? 'main' : 'down', { type });
  }
  app.shell.activateById(widget.id);
  if (!lab) {
    bringUp(widget);
  }
}

/** Shows a run, and follows it while it is seen. */
class RunWidget extends ViewWidget {
  private page: RunControls | null = null;
  private wanted: 'all' | 'metrics' | null = null;

  constructor(
    service: IRunService,
    readonly runId: string,
    view: (model: RunModel, widget: RunWidget) => Promise<ReactElement>,
  ) {
    let follower: Follower | null = null;
    super(
      async () => {
        const { Follower } = await import('../services/follower');
        follower = new Follower(service, runId);
        if (this.isDisposed) {
          follower.end();
        } else {
          follower.setVisible(this.isVisible);
        }
        return view(follower.model, this);
      },
      seen => follower?.setVisible(seen),
    );
    this.title.icon = ranksIcon;
    this.title.closable = true;
    this.disposed.connect(() => follower?.end());
  }

  /** Show a tab of a dashboard, once it is drawn. */
  select(tab: 'all' | 'metrics'): void {
    this.wanted = this.page ? null : tab;
    this.page?.select(tab);
  }

  readonly drawn = (page: RunControls): void => {
    this.page = page;
    if (this.wanted !== null) {
      this.select(this.wanted);
    }
  };
}

function dashboardOf(app: JupyterFrontEnd, service: IRunService, runId: string): RunWidget {
  const execute = executeIn(app);
  const widget = new RunWidget(service, runId, async (model, { drawn }) => {
    const { Dashboard } = await import('../views/Dashboard');
    return createElement(Dashboard, { runId, model, service, execute, onControls: drawn });
  });
  widget.id = `nbdist-run-${runId}`;
  widget.title.label = service.runs.row(runId)?.label ?? runId.replace(/^\d+-\d+-/, '');
  widget.title.caption = runId;
  return widget;
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
  widget.title.label = labWords().compareTitle;
  widget.title.icon = ranksIcon;
  widget.title.closable = true;
  return widget;
}

function executeIn(app: JupyterFrontEnd): Execute {
  return (command, args) => void app.commands.execute(command, { ...args });
}
