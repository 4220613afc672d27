/** @jest-environment jsdom */
import { jest } from '@jest/globals';
import { act, fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import { chooseIn } from './page';
import panel from '../src/panel/widget';
import { addButtons, SUMMARY } from '../src/lab/cells/output_links';
import { actForPanels, type PageRequest } from '../src/page/actions';
import { decode, type Request, type Update } from '../src/protocol/run';
import { type Buffer } from '../src/protocol/readers';
import { Ranks } from '../src/views/ranks/Ranks';
import { sample } from './samples';

type Listener = (content?: unknown, buffers?: readonly Buffer[]) => void;

/** A widget's model, as every view of it sees it. */
class Model {
  readonly requests: Request[] = [];
  readonly state: Record<string, unknown> = { panel_id: 'p1', placed: false, foreground: true };
  private readonly listeners = new Map<string, Set<Listener>>();

  get = (name: string): unknown => this.state[name];
  on = (event: string, listener: Listener): void =>
    void this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  off = (event: string, listener: Listener): void => void this.listeners.get(event)?.delete(listener);
  send = (content: Request): unknown => this.requests.push(content);

  tell(event: string, content?: unknown, buffers: readonly Buffer[] = []): void {
    this.listeners.get(event)?.forEach(listener => listener(content, buffers));
  }
}

const settled = (): Promise<void> => act(() => new Promise<void>(done => setTimeout(done, 100)));

async function opened(name: string): Promise<{ model: Model; end: () => void; output: HTMLElement }> {
  document.body.innerHTML = '<div id="output"></div>';
  const output = document.getElementById('output')!;
  const model = new Model();
  panel.initialize({ model: model as never });
  const end = panel.render({ model: model as never, el: output });
  const { content, buffers } = sample(name);
  model.tell('msg:custom', content, buffers);
  await settled();
  return { model, end, output };
}

function summary(): void {
  document.getElementById('output')!.outerHTML = '<div data-nbdist-panel="p1"><p>summary</p></div>';
}

test('a panel whose run ends moves into the place of its output, as its reader has left it', async () => {
  const { model, end } = await opened('running');
  fireEvent.click(screen.getByRole('tab', { name: 'Cell' }));
  const before = document.querySelector('.nbdist');

  model.state['placed'] = true;
  model.tell('change:placed');
  end();
  summary();
  await settled();

  expect(document.querySelector('[data-nbdist-panel] .nbdist')).toBe(before);
  expect(screen.getByRole('tab', { name: 'Cell' }).getAttribute('aria-selected')).toBe('true');
  expect(document.querySelector('p')!.hidden).toBe(true);
});

test('what the kernel has to say of a run that has ended stands in the panel', async () => {
  await opened('failure');

  expect(document.querySelector('.nbdist-calm')!.textContent).toBe('metrics: loss=0.31');
});

test('the dashboard and another run are buttons where the page does such things', async () => {
  const { model } = await opened('failure');
  expect(screen.queryByRole('button', { name: 'Run again' })).toBeNull();
  expect(screen.queryByRole('option', { name: 'Open dashboard' })).toBeNull();
  expect(model.requests).toEqual([]);

  const requests: PageRequest[] = [];
  actForPanels(request => requests.push(request));
  await opened('failure');
  fireEvent.click(screen.getByRole('button', { name: 'Run again' }));
  fireEvent.click(screen.getByRole('button', { name: 'Dashboard' }));
  chooseIn(screen.getByRole('combobox', { name: 'Run menu' }), 'Export');

  expect(requests.map(({ action, label }) => [action, label])).toEqual([
    ['again', 'lenet-k3f9'],
    ['open', 'lenet-k3f9'],
    ['export', 'lenet-k3f9'],
  ]);
  expect(requests[0]!.from.closest('#output')).not.toBeNull();
});

test('a failed run that has a checkpoint can be resumed from its head and from its failure, once it has ended', async () => {
  const requests: PageRequest[] = [];
  actForPanels(request => requests.push(request));
  const { model } = await opened('failure');
  const { content, buffers } = sample('failure');
  const buttons = (): HTMLElement[] => screen.queryAllByRole('button', { name: 'Resume from step 60' });
  const arrive = (live: boolean): Promise<void> => {
    const view = { ...(content['view'] as object), checkpoint: 'step 60', live };
    model.tell('msg:custom', { ...content, view }, buffers);
    return settled();
  };

  await arrive(true);
  expect(buttons()).toHaveLength(0);
  await arrive(false);
  expect(buttons().map(button => button.closest('.nbdist-failure') !== null)).toEqual([false, true]);
  buttons()[1]!.click();

  expect(requests.map(({ action, label }) => [action, label])).toEqual([['resume', 'lenet-k3f9']]);
});

test('a summary that a notebook keeps gets buttons, once, in the place of its command', () => {
  document.body.innerHTML = `<div class="nbdist-summary" data-run="20261120-lenet-k3f9" data-label="lenet-k3f9">
    <div class="n-foot"><span class="n-full">Full log: %dist_logs</span> <span>today</span></div></div>`;
  const requests: PageRequest[] = [];
  actForPanels(request => requests.push(request));
  const kept = document.querySelector<HTMLElement>(SUMMARY)!;

  addButtons(kept);
  addButtons(kept);

  const buttons = screen.getAllByRole('button');
  expect(buttons.map(button => button.textContent)).toEqual(['Log', 'Charts', 'Dashboard', 'Run again']);
  expect(kept.querySelector<HTMLElement>('.n-full')!.hidden).toBe(true);
  buttons.slice(0, 2).forEach(button => fireEvent.click(button));
  expect(requests.map(({ action, tab, runId }) => [action, tab, runId])).toEqual([
    ['open', 'all', '20261120-lenet-k3f9'],
    ['open', 'metrics', '20261120-lenet-k3f9'],
  ]);
});

test.each([
  ['a server that knows how it ended', true, 'Stopped', ''],
  ['no server', false, 'Running', 'No message from the kernel since 0:12'],
])('of a silent kernel the panel shows what is known: %s', async (_name, known, state, note) => {
  jest.useFakeTimers();
  document.body.dataset['baseUrl'] = '/user/ada/';
  const { content, buffers } = sample('running');
  const { view } = content as { view: object };
  const detail = { view: { ...view, state: 'stopped', live: false, stall: null } };
  const urls: string[] = [];
  globalThis.fetch = ((url: string) => {
    urls.push(url);
    return Promise.resolve({ ok: known, json: () => Promise.resolve(detail) });
  }) as never;
  const live = { ...content, view: { ...view, stall: null } };
  document.body.innerHTML = '<div id="output"></div>';
  const model = new Model();
  model.state['panel_id'] = `silent ${known}`;
  panel.initialize({ model: model as never });
  panel.render({ model: model as never, el: document.getElementById('output')! });
  model.tell('msg:custom', live, buffers);
  await act(() => jest.advanceTimersByTimeAsync(30_000));

  const clock = document.querySelector('.nbdist-elapsed')!.textContent;
  expect(document.querySelector('.nbdist-pill')!.textContent).toBe(state);
  expect(document.body.textContent).toContain(note);
  await act(() => jest.advanceTimersByTimeAsync(20_000));
  expect(document.querySelector('.nbdist-elapsed')!.textContent).toBe(clock);
  expect(urls.at(-1)).toContain('/user/ada/nbdist/api/runs/');
  document.body.innerHTML = '';
  jest.useRealTimers();
});

test('what is not measured yet has its room already', async () => {
  const { content, buffers } = sample('first_update');
  const { view } = decode(content, buffers) as Update;
  const ranks = view!.ranks.map(rank => ({
    ...rank,
    ...{ state: 'running' as const, exit: { en: '', zh: '' }, lastLine: '', device: 'cpu', pid: null },
    ...{ memory: null, memoryTotal: null, gpuMemory: null, gpuMemoryTotal: null },
    ...{ cpu: null, gpu: null, rate: null, wait: null },
  }));

  render(
    createElement(Ranks, {
      view: { ...view!, ranks },
      selected: 0,
      onSelect: () => undefined,
      onOpen: () => undefined,
    }),
  );

  expect(screen.getAllByRole('columnheader').map(({ textContent }) => textContent)).toEqual([
    'Rank',
    'State',
    'Device',
    'Memory',
    'Utilisation',
    'Step rate',
    'Last line',
  ]);
});
