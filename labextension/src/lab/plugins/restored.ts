/** The panel of a run in its cell, for a page that was loaded (again) after the cell was run. What the kernel sends
 * to a cell reaches the page alone that ran it, and the file of the notebook is older: it may hold the error of the
 * run before. So the server tells how the run stands, and what the notebook keeps of its end. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CodeCell } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { PanelLayout } from '@lumino/widgets';
import { createElement } from 'react';

import '../styles/links.css';
import { languageOf } from '../../words';
import { cellOf, unsavedRuns } from '../cells';
import type { Client, RunRow } from '../client';
import type { Follower } from '../follower';
import { IRunService } from '../tokens';
import { cellsOf } from './notebook';
import { ViewWidget } from './view_widget';

/** class of a cell whose outputs are those of an earlier run */
const CLASS = 'nbdist-restored';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:restored',
  description: 'The panel of a run in its cell after the page was loaded again.',
  autoStart: true,
  requires: [IRunService, INotebookTracker],
  activate: (_app: JupyterFrontEnd, service: IRunService, notebooks: INotebookTracker): void => {
    notebooks.forEach(panel => void restore(service, panel));
    notebooks.widgetAdded.connect((_sender, panel) => void restore(service, panel));
  },
};

export default plugin;

async function restore(service: IRunService, panel: NotebookPanel): Promise<void> {
  const { client, runs } = service;
  await Promise.all([panel.context.ready, runs.ready]);
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
      await cell.ready;
      new RestoredRun(service, cell, row.runId);
    }
  }
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
  private follower: Follower | null = null;
  private readonly widget: ViewWidget;
  private ended = false;
  private writing = false;
  private readonly unsubscribe: () => void;

  constructor(
    private readonly service: IRunService,
    private readonly cell: CodeCell,
    private readonly runId: string,
  ) {
    const { runs } = service;
    this.widget = new ViewWidget(
      () => this.view(),
      seen => this.follower?.setVisible(seen),
    );
    this.widget.addClass('nbdist-restored-panel');
    const layout = cell.layout as PanelLayout;
    const outputs = layout.widgets.findIndex(({ node }) => node.classList.contains('jp-Cell-outputWrapper'));
    layout.insertWidget(outputs + 1, this.widget);
    cell.addClass(CLASS);
    this.unsubscribe = runs.subscribe(() => this.refresh());
    cell.model.outputs.changed.connect(this.outputsChanged, this);
    NotebookActions.executionScheduled.connect(this.scheduled, this);
    cell.disposed.connect(() => this.leave());
    this.refresh();
  }

  private async view(): Promise<ReturnType<typeof createElement>> {
    const [{ RestoredPanel }, { Follower }] = await Promise.all([
      import('../views/Dashboard'),
      import('../follower'),
    ]);
    this.follower = new Follower(this.service, this.runId);
    if (this.widget.isDisposed) {
      this.follower.end();
    }
    return createElement(RestoredPanel, {
      runId: this.runId,
      model: this.follower.model,
      service: this.service,
    });
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
    const data = await this.service.client.summary(this.runId, languageOf()).catch(() => null);
    if (this.widget.isDisposed) {
      return;
    }
    this.writing = true;
    model.executionState = 'idle';
    if (data) {
      model.executionCount = null;
      model.trusted = true;
      model.outputs.fromJSON([{ output_type: 'display_data', data, metadata: {} }]);
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
    this.follower?.end();
    this.widget.dispose();
    if (!this.cell.isDisposed) {
      this.cell.model.outputs.changed.disconnect(this.outputsChanged, this);
      this.cell.model.executionState = 'idle';
      this.cell.removeClass(CLASS);
    }
  }
}
