/** The panel of a run in its cell, for a page that was loaded (again) after the cell was run. What the kernel sends
 * to a cell reaches the page alone that ran it, and the file of the notebook is older: it may hold the error of the
 * run before. So the server tells how the run stands, and what the notebook keeps of its end. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { PanelLayout } from '@lumino/widgets';
import { createElement } from 'react';

import '../styles/links.css';
import type { RunModel } from '../../model/run_model';
import { languageOf } from '../../words/languages';
import { cellOf, unsavedRuns } from '../cells/run_cell';
import { leftRuns } from '../services/listing';
import type { Client, RunRow } from '../services/client';
import { IRunService } from '../tokens';
import { cellsOf } from './notebook';
import { RunWidget } from './view_widget';

/** class of a cell whose outputs are those of an earlier run */
const CLASS = 'nbdist-restored';
/** MIME type of a live panel */
const WIDGET = 'application/vnd.jupyter.widget-view+json';
/** states of a kernel that sends nothing more of its runs */
const GONE: ReadonlySet<string> = new Set(['restarting', 'autorestarting', 'terminating', 'dead']);
/** milliseconds after the end of a run in which its kernel shows it */
const SHOWN = 5000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:restored',
  description: 'The panel of a run in its cell after the page was loaded again.',
  autoStart: true,
  requires: [IRunService, INotebookTracker],
  activate: (_app: JupyterFrontEnd, service: IRunService, notebooks: INotebookTracker): void => {
    const follow = (panel: NotebookPanel): void => {
      void restore(service, panel);
      followKernel(service, panel);
    };
    notebooks.forEach(follow);
    notebooks.widgetAdded.connect((_sender, panel) => follow(panel));
  },
};

export default plugin;

async function restore(service: IRunService, panel: NotebookPanel): Promise<void> {
  const { client, runs } = service;
  await Promise.all([panel.context.ready, runs.ready]);
  if (panel.isDisposed) {
    return;
  }
  const saved = Date.parse(panel.context.contentsModel?.last_modified ?? '') / 1000;
  const taken = new Set<CodeCell>();
  for (const row of unsavedRuns(runs.knownRows, panel.context.localPath, saved)) {
    const places = cellsOf(panel);
    const marked = places.findIndex(({ id }) => id === row.cellId);
    // most are known by their ids, and then the program is not asked for
    const at = marked >= 0 ? marked : cellOf(places, await programOf(client, row), '');
    const cell = panel.isDisposed ? undefined : panel.content.widgets[at];
    if (cell instanceof CodeCell && !taken.has(cell) && cell.model.executionState !== 'running') {
      taken.add(cell);
      new RestoredRun(service, cell, row.runId);
    }
  }
}

/** Take runs over from a kernel that goes, and those whose end it has not shown. */
function followKernel(service: IRunService, panel: NotebookPanel): void {
  const { runs } = service;
  const take = (rows: readonly RunRow[]): void => {
    if (panel.isDisposed) {
      return;
    }
    for (const row of leftRuns(rows, runs.knownRows, panel.context.localPath)) {
      const cell = panel.content.widgets.find(({ model }) => model.sharedModel.getId() === row.cellId);
      if (cell instanceof CodeCell && !cell.hasClass(CLASS) && showsWidget(cell)) {
        new RestoredRun(service, cell, row.runId);
      }
    }
  };
  panel.sessionContext.statusChanged.connect((_sender, status) => {
    if (GONE.has(status)) {
      take(runs.liveRows);
    }
  });
  const unsubscribe = runs.events.subscribe(({ kind, row }) => {
    if (kind === 'ended') {
      setTimeout(() => take([row]), SHOWN);
    }
  });
  panel.disposed.connect(unsubscribe);
}

/** Return true when a cell shows a widget, as it does while a run goes on. */
function showsWidget({ model }: CodeCell): boolean {
  return model.outputs
    .toJSON()
    .some(({ data }) => typeof data === 'object' && data !== null && WIDGET in data);
}

/** Return the program of the run; null, which no cell has, where the server does not answer. */
function programOf(client: Client, { runId }: RunRow): Promise<string | null> {
  return client.run(runId).then(
    ({ cell }) => cell,
    () => null,
  );
}

/** Shown until the cell is run again, or its outputs are cleared. */
class RestoredRun {
  private readonly widget: RunWidget;
  private ended = false;
  private notes: readonly string[] = [];
  private writing = false;
  private readonly unsubscribe: () => void;

  constructor(
    private readonly service: IRunService,
    private readonly cell: CodeCell,
    private readonly runId: string,
  ) {
    const { runs } = service;
    this.widget = new RunWidget(service, runId, model => this.view(model));
    this.widget.addClass('nbdist-restored-panel');
    cell.addClass(CLASS);
    void cell.ready.then(() => this.place());
    this.unsubscribe = runs.subscribe(() => this.refresh());
    cell.model.outputs.changed.connect(this.outputsChanged, this);
    NotebookActions.executionScheduled.connect(this.scheduled, this);
    cell.disposed.connect(() => this.leave());
    this.refresh();
  }

  /** Draw below the outputs; a cell that is far from what can be seen has no layout yet. */
  private place(): void {
    if (!this.widget.isDisposed) {
      const { widgets } = this.cell.layout as PanelLayout;
      const outputs = widgets.findIndex(({ node }) => node.classList.contains('jp-Cell-outputWrapper'));
      (this.cell.layout as PanelLayout).insertWidget(outputs + 1, this.widget);
    }
  }

  private async view(model: RunModel): Promise<ReturnType<typeof createElement>> {
    const { service, runId } = this;
    model.note(this.notes);
    const [{ RestoredPanel }, { line }] = await Promise.all([
      import('../views/Dashboard'),
      service.client.run(runId).catch(() => ({ line: '' })),
    ]);
    return createElement(RestoredPanel, { runId, model, service, line: () => line });
  }

  private refresh(): void {
    const row: RunRow | undefined = this.service.runs.row(this.runId);
    if (!row) {
      this.leave();
    } else if (row.live) {
      this.cell.model.executionState = 'running';
    } else if (!this.ended) {
      this.ended = true;
      void this.writeSummary();
    }
  }

  /** Write the summary into the notebook, as the kernel does when the page stays loaded. */
  private async writeSummary(): Promise<void> {
    const { model } = this.cell;
    const summary = await this.service.client.summary(this.runId, languageOf()).catch(() => null);
    if (this.widget.isDisposed) {
      return;
    }
    this.notes = summary?.notes ?? [];
    this.widget.follower?.model.note(this.notes);
    this.writing = true;
    model.executionState = 'idle';
    if (summary) {
      model.executionCount = null;
      model.trusted = true;
      model.outputs.fromJSON([{ output_type: 'display_data', data: summary.data, metadata: {} }]);
    }
    this.writing = false;
  }

  private scheduled(_sender: unknown, { cell }: { cell: unknown }): void {
    if (cell === this.cell) {
      this.leave();
    }
  }

  private outputsChanged(): void {
    if (!this.writing) {
      this.leave();
    }
  }

  private leave(): void {
    if (this.widget.isDisposed) {
      return;
    }
    this.unsubscribe();
    NotebookActions.executionScheduled.disconnect(this.scheduled, this);
    this.widget.dispose();
    if (!this.cell.isDisposed) {
      this.cell.model.outputs.changed.disconnect(this.outputsChanged, this);
      this.cell.model.executionState = 'idle';
      this.cell.removeClass(CLASS);
    }
  }
}
