/** @jest-environment jsdom */
import './page';
import { fireEvent, screen, waitFor } from '@testing-library/preact';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import completion from '../src/lab/plugins/completion';
import kernel from '../src/lab/plugins/kernel';
import lines from '../src/lab/plugins/lines';
import mainArea from '../src/lab/plugins/main_area';
import news from '../src/lab/plugins/news';
import notebook from '../src/lab/plugins/notebook';
import restored from '../src/lab/plugins/restored';
import service from '../src/lab/plugins/service';
import sidebar from '../src/lab/plugins/sidebar';
import { Runs } from '../src/lab/services/runs';
import { COMMANDS } from '../src/lab/tokens';
import { askPage } from '../src/page/actions';
import {
  answers,
  type CodeCell,
  NotebookActions,
  NotebookPanel,
  server as pageServer,
  messages,
} from './jupyterlab';
import { FakeSocket, fakeService, row, running } from './lab_fakes';
import { sample } from './samples';

const [status, notices] = news;
const RUN = '20261120-141503-lenet-k3f9';
const CELL = '%%distributed -n 2\nfirst\nsecond';

/** Start a plugin with the services that it gets. */
function start(plugin: unknown, ...given: unknown[]): unknown {
  return (plugin as { activate: (...given: unknown[]) => unknown }).activate(...given);
}

/** A page of JupyterLab on a server that has these runs. */
async function page(...rows: readonly Record<string, unknown>[]) {
  const { server, client, stream, clock } = fakeService();
  const runs = new Runs(client, stream, clock);
  server.answers['GET nbdist/api/runs?'] = { body: { runs: rows, next: null, live: 1 } };
  for (const each of rows) {
    const detail = { row: each, view: null, cell: 'first\nsecond', line: '%%distributed -n 2' };
    server.answers[`GET nbdist/api/runs/${String(each['run_id'])}`] = { body: detail };
  }
  await runs.refresh();
  server.lastSocket.onopen!();
  const widgets: Widget[] = [];
  const shell = {
    add: (widget: Widget) => {
      Widget.attach(widget, document.body);
      widgets.push(widget);
    },
    activateById: (): void => undefined,
  };
  const commands = new CommandRegistry();
  const app = { commands, shell, restored: Promise.resolve(), serviceManager: {} };
  /** commands of other plugins that were carried out, with what they were about */
  const executed: unknown[][] = [];
  const offer = (...names: string[]): void =>
    names.forEach(name =>
      commands.addCommand(name, {
        label: name,
        execute: ({ runId, tab }) => executed.push([name, runId, tab].filter(Boolean)),
      }),
    );
  const panels: NotebookPanel[] = [];
  const notebooks = {
    widgetAdded: new Signal<object, NotebookPanel>({}),
    get currentWidget(): NotebookPanel | undefined {
      return panels[0];
    },
    get activeCell(): CodeCell | undefined {
      return panels[0]?.content.activeCell;
    },
    find: (wanted: (panel: NotebookPanel) => boolean) => panels.find(wanted),
    forEach: (act: (panel: NotebookPanel) => void) => panels.forEach(act),
    open: (...sources: readonly string[]) => {
      const panel = new NotebookPanel('lenet.ipynb', sources);
      panels.push(panel);
      notebooks.widgetAdded.emit(panel);
      return panel.content.widgets[0]!;
    },
  };
  const tell = (...changed: readonly object[]): void =>
    server.lastSocket.receive({ kind: 'runs', runs: changed, removed: [], live: 1 });
  return {
    app,
    commands,
    executed,
    offer,
    notebooks,
    panels,
    widgets,
    server,
    tell,
    service: { client, stream, runs },
  };
}

const shown = (text: string | RegExp): Promise<HTMLElement> => screen.findByText(text);

beforeEach(() => {
  document.body.replaceChildren();
  messages.length = 0;
  answers.length = 0;
});

test('the service asks the server for the runs once the page is idle, in the language of the page', async () => {
  const requests: string[] = [];
  pageServer.request = url => Promise.reject(new Error(`${requests.push(url)}`));
  const serverSettings = { baseUrl: '/user/ada/', wsUrl: '', WebSocket: FakeSocket };
  const app = { restored: Promise.resolve(), serviceManager: { serverSettings } };

  start(service, app, { languageCode: 'zh_CN' });

  expect(document.documentElement.lang).toBe('zh-CN');
  document.documentElement.lang = '';
  await waitFor(() => expect(requests).toEqual(['/user/ada/nbdist/api/runs?limit=50']));
});

test('the sidebar lists the runs, opens one by a click, and deletes one once that is confirmed', async () => {
  const { app, commands, executed, offer, server, service, tell } = await page(
    row('lenet-k3f9'),
    row('bert-aaaa'),
  );
  offer(COMMANDS.open);
  start(sidebar, app, service, {}, null, null, null);
  server.answers[`DELETE nbdist/api/runs/${RUN}`] = { status: 204 };

  fireEvent.click(await shown(/k3f9/));
  tell(row('new-bbbb', running));
  await shown('Active');
  await commands.execute(COMMANDS.remove, { runId: RUN });
  expect(server.requests).not.toContain(`DELETE nbdist/api/runs/${RUN}`);
  answers.push('Delete');
  await commands.execute(COMMANDS.remove, { runId: RUN });

  await waitFor(() => expect(screen.queryByText(/k3f9/)).toBeNull());
  expect(executed).toEqual([[COMMANDS.open, RUN]]);
});

test('the menu of a run stops it, and a refusal is shown', async () => {
  const { app, commands, offer, server, service } = await page(row('lenet-k3f9', running));
  start(sidebar, app, service, {}, null, null, null);
  offer(COMMANDS.open, COMMANDS.attach, COMMANDS.reveal, COMMANDS.againWith, COMMANDS.compare);
  server.answers[`POST nbdist/api/runs/${RUN}/stop`] = { status: 507, body: { message: 'disk is full' } };

  fireEvent.contextMenu(await shown(/lenet-k3f9/));
  const items = [...document.querySelectorAll('.lm-Menu-item:not(.lm-mod-hidden)')].map(
    ({ textContent }) => textContent,
  );
  await commands.execute(COMMANDS.stop, { runId: RUN });

  expect(items).toContain('Stop');
  expect(items).not.toContain('Delete');
  expect(messages).toEqual(['lenet-k3f9 could not be stopped: disk is full']);
});

test('a run is pinned, tagged and noted from its menu', async () => {
  const { app, commands, server, service } = await page(row('lenet-k3f9'));
  start(sidebar, app, service, {}, null, null, null);
  const change = async (command: string, marks: object): Promise<unknown> => {
    server.answers[`PATCH nbdist/api/runs/${RUN}`] = { body: row('lenet-k3f9', marks) };
    await commands.execute(command, { runId: RUN });
    return server.bodies.at(-1);
  };

  expect(commands.label(COMMANDS.pin, { runId: RUN })).toBe('Pin');
  expect(await change(COMMANDS.pin, { pinned: true })).toEqual({ pinned: true });
  expect(commands.label(COMMANDS.pin, { runId: RUN })).toBe('Unpin');
  await shown('Pinned');
  answers.push(' base line，slow, ');
  expect(await change(COMMANDS.tag, { tags: ['base line', 'slow'] })).toEqual({
    tags: ['base line', 'slow'],
  });
  await shown('base line');
  answers.push('warm-up of 500');
  expect(await change(COMMANDS.note, { note: 'warm-up of 500' })).toEqual({ note: 'warm-up of 500' });

  expect(await screen.findByTitle(/^warm-up of 500/)).toBeTruthy();
});

test('a dashboard that was closed by its × opens again, and one that is open is not opened twice', async () => {
  const { app, commands, server, service, widgets } = await page(row('lenet-k3f9', running));
  start(mainArea, app, service, {}, null);
  const open = (): Promise<unknown> => commands.execute(COMMANDS.open, { runId: RUN, tab: 'metrics' });

  await open();
  await open();
  await shown('Waiting for the run…');
  expect(widgets.map(({ title }) => title.label)).toEqual(['lenet-k3f9']);
  const { content, buffers } = sample('running');
  server.lastSocket.receive(
    { ...content, run_id: RUN, pulled: false },
    buffers.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength)),
  );
  expect(await screen.findByRole('log')).toBeTruthy();
  widgets[0]!.close();
  expect(document.querySelector('.nbdist')).toBeNull();
  await open();

  await waitFor(() => expect(server.lastSocket.kinds.slice(-2)).toEqual(['unwatch', 'watch']));
  expect(widgets).toHaveLength(2);
});

test('runs are compared beside each other, the oldest first', async () => {
  const { app, commands, server, service, widgets } = await page(row('lenet-k3f9'));
  start(mainArea, app, service, {});
  server.answers['POST nbdist/api/compare'] = { status: 404, body: { message: 'there are no such runs' } };

  await commands.execute(COMMANDS.compare, { runIds: ['b', 'a'] });

  expect(await shown(/there are no such runs/)).toBeTruthy();
  expect(widgets[0]!.title.label).toBe('Compare runs');
  expect(server.bodies.at(-1)).toMatchObject({ run_ids: ['a', 'b'] });
});

test('the status bar counts the ranks that run, and shows the list', async () => {
  const { app, executed, offer, service, tell } = await page(row('lenet-k3f9'));
  offer(COMMANDS.show);
  start(status, app, service, {
    registerStatusItem: (_id: string, { item }: { item: Widget }) => app.shell.add(item),
  });

  await shown('No runs');
  tell(row('new-bbbb', running), row('bert-aaaa', { ...running, stalled: true }));
  fireEvent.click(await shown('Ranks: 2 running, 2 stalled'));

  expect(executed).toEqual([[COMMANDS.show]]);
});

test('a stall is announced as long as it lasts, an end in its words, and neither while its cell is seen', async () => {
  const { app, notebooks, service, tell } = await page(row('lenet-k3f9', running), row('bert-aaaa', running));
  start(notices, app, service, null, notebooks);
  const stalled = { ...running, stalled: true, progress: { fraction: 0.5, step: 1, total: 2 } };

  document.title = 'JupyterLab';
  tell(row('lenet-k3f9', stalled));
  await waitFor(() => expect(messages).toEqual(['lenet-k3f9 has stalled']));
  expect(document.title).toBe('50 % · lenet-k3f9 · JupyterLab');
  tell(row('lenet-k3f9', { state: 'failed', headline: 'rank 1 failed first' }));
  await waitFor(() => expect(messages).toEqual(['', 'lenet-k3f9 failed: rank 1 failed first']));
  const cell = notebooks.open(CELL);
  cell.node.getBoundingClientRect = () => new DOMRect(0, 10, 10, 10);
  notebooks.find(() => true)!.content.node.getBoundingClientRect = () => new DOMRect(0, 0, 100, 100);
  tell(row('bert-aaaa', { state: 'failed' }));
  await new Promise(announced => setTimeout(announced, 20));

  expect(messages).toHaveLength(2);
});

test('a run leads to its cell and line, is run again, or shown in a cell below', async () => {
  const { app, commands, notebooks, offer, panels, service } = await page(row('lenet-k3f9', { cell_id: '' }));
  offer(COMMANDS.open);
  start(notebook, app, service, notebooks, { openOrReveal: () => null }, null);
  const other = notebooks.open('other', CELL);
  const cell = panels[0]!.content.widgets[1]!;
  const ran: unknown[] = [];
  NotebookActions.executionScheduled.connect((_sender, scheduled) => void ran.push(scheduled.cell.source));

  await commands.execute(COMMANDS.reveal, { runId: RUN, line: 2 });
  expect([panels[0]!.content.activeCell, cell.shownLine, other.shownLine]).toEqual([cell, 2, null]);
  await commands.execute(COMMANDS.again, { runId: RUN });
  await commands.execute(COMMANDS.attach, { runId: RUN });
  askPage({ action: 'export', runId: RUN, label: 'lenet-k3f9', from: cell.node });
  expect(ran).toEqual([CELL, '%dist_attach lenet-k3f9', '%dist_export lenet-k3f9']);
  cell.source = 'changed';
  await commands.execute(COMMANDS.again, { runId: RUN });

  expect(messages).toEqual(['The cell was not found in lenet.ipynb. It may have been changed or removed.']);
});

test('the form writes the first line of a cell, and that of a run which is started again', async () => {
  const { app, commands, notebooks, offer, panels, server, service } = await page(row('lenet-k3f9'));
  offer(COMMANDS.open);
  start(notebook, app, service, notebooks, null, null);
  const cell = notebooks.open(CELL);
  server.answers['GET nbdist/api/devices'] = { body: { gpus: [{ index: 0, name: 'H200' }, { index: 1 }] } };

  answers.push('Write');
  const written = commands.execute(COMMANDS.runOnRanks);
  fireEvent.click(await screen.findByRole('button', { name: '--gpus 0,1' }));
  await written;
  expect(cell.source).toBe('%%distributed --gpus 0,1\nfirst\nsecond');
  document.querySelector('.nbdist-form')!.remove();

  answers.push('Insert below');
  const inserted = commands.execute(COMMANDS.againWith, { runId: RUN });
  const line = '%%distributed --gpus 0,1 --name again';
  fireEvent.input(await screen.findByLabelText('First line of the cell'), { target: { value: line } });
  await inserted;
  expect(panels[0]!.content.activeCell!.source).toContain('--gpus 0,1 --name again\nfirst');
});

test('the kernel loads nbdist and the language before a cell of ours, and a kernel without it is announced', async () => {
  const { app, notebooks, panels, service } = await page();
  start(kernel, app, service);
  const cell = notebooks.open(CELL, 'print(1)');
  const { content } = panels[0]!;
  panels[0]!.loaded = 'False';

  NotebookActions.executionScheduled.emit({ notebook: content, cell: content.widgets[1]! });
  expect(panels[0]!.executed).toEqual([]);
  NotebookActions.executionScheduled.emit({ notebook: content, cell });
  expect(panels[0]!.executed).toEqual([
    expect.stringMatching(/"NBDIST_PAGE_LANG"\] = "en"[^]*load_ipython_extension/),
  ]);
  await new Promise(answered => setTimeout(answered));
  const session = panels[0]!.sessionContext.session!;
  Object.assign(session.kernel, { hasPendingInput: true });
  NotebookActions.executed.emit({ notebook: content, cell, success: false });

  expect(session.kernel).toMatchObject({ hasPendingInput: false });
  expect(messages).toEqual([expect.stringContaining('has no nbdist')]);
});

test('a run that a loaded page finds gets its panel back, and its end is written into the notebook', async () => {
  const { app, notebooks, server, service, tell } = await page(row('lenet-k3f9', running));
  start(restored, app, service, notebooks);
  const cell = notebooks.open(CELL);
  await waitFor(() => expect(cell.model.executionState).toBe('running'));
  await waitFor(() => expect(cell.node.querySelector('.nbdist-restored-panel .nbdist')).not.toBeNull());
  const data = { 'text/plain': 'finished' };
  server.answers = { [`GET nbdist/api/runs/${RUN}/summary`]: { body: { data, notes: [] } } };

  tell(row('lenet-k3f9'));
  await waitFor(() => expect(cell.model.executionState).toBe('idle'));
  expect(cell.model.outputs.toJSON()).toEqual([{ output_type: 'display_data', data, metadata: {} }]);
  NotebookActions.executionScheduled.emit({ notebook: cell.parent as never, cell });

  expect(document.querySelector('.nbdist-restored-panel')).toBeNull();
});

test('options and magics are completed', async () => {
  const { app, notebooks, server, service } = await page();
  const providers: {
    isApplicable: (at: object) => Promise<boolean>;
    fetch: (...at: unknown[]) => unknown;
  }[] = [];
  start(completion, app, service, { registerProvider: (each: never) => providers.push(each) }, null);
  const help = { en: 'ranks', zh: '' };
  server.answers['GET nbdist/api/options'] = { body: { options: [{ flags: ['-n', '--nproc'], help }] } };
  const complete = async (source: string): Promise<unknown[]> => {
    const context = { editor: notebooks.open(source).editor };
    const wanted = await Promise.all(providers.map(each => each.isApplicable(context)));
    return Promise.all(providers.filter((_each, at) => wanted[at]).map(each => each.fetch({}, context)));
  };

  expect(await complete('%%distributed --np\n')).toMatchObject([{ items: [{ insertText: '--nproc' }] }]);
  expect(await complete('%dist_sta\n')).toMatchObject([
    { start: 0, items: [{ label: '%dist_stacks' }, { label: '%dist_status' }] },
  ]);
});

test('an error leads to the line of its cell, and a summary has buttons that open its run', async () => {
  const { app, executed, notebooks, offer, service } = await page(row('lenet-k3f9'));
  offer(COMMANDS.open);
  start(notebook, app, service, notebooks, null, null);
  start(lines, app, notebooks, service, null);
  const cell = notebooks.open(CELL);
  const output = cell.widgets[0]!.node;

  output.innerHTML = `<div><div class="jp-RenderedText" data-mime-type="application/vnd.jupyter.error"></div>
    <div class="nbdist-summary" data-run="${RUN}"><p class="n-foot"><i class="n-full">full</i></p></div></div>`;
  output.querySelector('.jp-RenderedText')!.textContent = 'RunFailed: ValueError at line 2 of the cell';
  fireEvent.click(await shown('line 2 of the cell'));
  fireEvent.click(await screen.findByRole('button', { name: 'Log' }));

  await waitFor(() => expect(cell.shownLine).toBe(2));
  expect(executed).toEqual([[COMMANDS.open, RUN, 'all']]);
});
