/** @jest-environment jsdom */
import './page';
import { jest } from '@jest/globals';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/preact';
import { createElement, createRef } from 'react';
import { RunModel } from '../src/model/run_model';
import { decode, type Update } from '../src/protocol/run';
import { Metrics } from '../src/views/charts/Metrics';
import { cannotStop } from '../src/views/Notes';
import { Panel } from '../src/views/Panel';
import { RunPage, type RunHost } from '../src/views/RunPage';
import { sample } from './samples';

const nothing = (): void => undefined;

afterEach(() => {
  cleanup();
  document.body.innerHTML = '';
});

function modelOf(name: string): { model: RunModel; change: (view: object) => void } {
  const model = new RunModel({ now: () => 10, frame: draw => draw() });
  const { content, buffers } = sample(name);
  const update = decode(content, buffers) as Update;
  model.receive(update);
  const change = (view: object): void =>
    void act(() => model.receive({ ...update, view: { ...update.view!, ...view }, deltas: [] }));
  return { model, change };
}

const HOST: RunHost = {
  stop: () => Promise.resolve(null),
  board: nothing,
  again: nothing,
  interrupt: nothing,
};

function panelOf(name: string, over: Partial<RunHost> = {}, folds = true): ReturnType<typeof modelOf> {
  const shown = modelOf(name);
  render(createElement(Panel, { run: shown.model, host: { ...HOST, ...over }, folds }));
  return shown;
}

function pageOf(name: string): ReturnType<typeof modelOf> & { again: (offered: boolean) => void } {
  const shown = modelOf(name);
  const root = createRef<HTMLElement>();
  const page = (offered: boolean) =>
    createElement(RunPage, {
      model: shown.model,
      host: HOST,
      root,
      inCell: false,
      label: 'lenet',
      empty: createElement('p', null),
      pages: [
        {
          tab: 'stacks',
          name: 'Stacks',
          icon: 'stacks',
          offered,
          draw: () => createElement('p', null, 'taken'),
        },
      ],
    });
  const { rerender } = render(page(true));
  return { ...shown, again: offered => rerender(page(offered)) };
}

test('a run that cannot be stopped from here says so, and can be tried again, until it ends', async () => {
  const stop = jest.fn(() => Promise.resolve(cannotStop('lenet')));
  const { change } = panelOf('running', { stop });

  fireEvent.click(screen.getByRole('button', { name: 'Stop' }));

  expect(await screen.findByText(/cannot interrupt the kernel/)).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
  expect(stop).toHaveBeenCalledTimes(2);

  change({ state: 'stopped', live: false });
  expect(screen.queryByText(/cannot interrupt the kernel/)).toBeNull();
});

test('a mistake of the program stands in its panel, and among the notes once the run has ended', () => {
  const { change } = panelOf('stalled');
  const warning = 'every epoch has the same order (DataLoader, cell line 9): write  sampler.set_epoch(epoch)';
  expect(document.querySelectorAll('.nbdist-calm > div')).toHaveLength(1);
  expect(document.querySelector('.nbdist-calm')!.textContent).toBe(warning);

  change({ live: false, state: 'finished', stall: null, notes: [warning, 'over'] });

  const lines = [...document.querySelectorAll('.nbdist-calm > div')].map(line => line.textContent);
  expect(lines).toEqual([warning, 'over']);
});

test('a run that finishes is one line with its figures, opened by a button or left as it was read', () => {
  const over = { live: false, state: 'finished', stall: null, elapsed: 4, notes: ['a remark'] };
  const { model, change } = panelOf('running');
  const { content, buffers } = sample('band_chart');
  model.charts = new Map([['metric/loss', (decode(content, buffers) as Update).charts[0]!]]);
  const body = (): HTMLElement => document.querySelector<HTMLElement>('.nbdist-body')!;
  change(over);
  const fold = screen.getByRole('button', { expanded: false, name: /ranks · 0:04 · loss / });

  expect(body().hidden).toBe(true);
  expect(screen.getByText('a remark').closest('[hidden]')).toBeNull();
  expect(document.getElementById(fold.getAttribute('aria-controls')!)).toBe(body());
  fireEvent.click(fold);
  expect([body().hidden, fold.getAttribute('aria-expanded')]).toEqual([false, 'true']);
  fireEvent.click(fold);
  expect(body().hidden).toBe(true);

  cleanup();
  const read = panelOf('running');
  fireEvent.click(screen.getByRole('tab', { name: 'Rank 1' }));
  read.change(over);
  expect(body().hidden).toBe(false);

  cleanup();
  panelOf('running', {}, false).change(over);
  expect(body().hidden).toBe(false);
});

test('a metric with a single point is a number', () => {
  const point = (rows: number) => ({
    ...{ tag: 'acc', kind: 'band' as const, group: 'metric' as const, unit: '', ranks: [0], highest: null },
    ...{
      last: [0.93, 0.93, 0.93],
      columns: [0, 1, 0.93, 0.93, 0.93].map(v => new Float32Array(rows).fill(v)),
    },
  });
  const shown = (rows: number): void => {
    const charts = new Map([['metric/acc', point(rows)]]);
    render(createElement(Metrics, { charts, onBoard: null }));
  };

  shown(1);
  expect(document.querySelector('.nbdist-figure')!.textContent).toBe('acc0.93');
  expect(document.querySelector('.nbdist-plot')).toBeNull();
  cleanup();
  shown(2);
  expect(document.querySelector('.nbdist-plot')).not.toBeNull();
});

test('what waits for its kernel is offered only where the kernel hears of it', () => {
  panelOf('stalled', { interrupt: null });
  expect(screen.queryByRole('button', { name: 'Interrupt rank 1' })).toBeNull();
  cleanup();

  const interrupt = jest.fn();
  panelOf('stalled', { interrupt });
  fireEvent.click(screen.getByRole('button', { name: 'Interrupt rank 1' }));

  expect(interrupt.mock.calls[0]![0]).toBe(1);
});

test.each([
  ['a panel keeps all its keys from the notebook', panelOf, 0],
  ['a page of its own takes none', pageOf, 1],
] as const)('%s', (_what, show, events) => {
  const outside = jest.fn();
  document.body.addEventListener('keydown', outside);
  show('running');

  fireEvent.keyDown(screen.getByRole('log'), { key: 'm' });

  expect(outside).toHaveBeenCalledTimes(events);
  document.body.removeEventListener('keydown', outside);
});

test('a tab that is not offered any more still shows what its reader has before him', () => {
  const { again } = pageOf('running');
  fireEvent.click(screen.getByRole('tab', { name: 'Stacks' }));

  again(false);

  expect(screen.queryByRole('tab', { name: 'Stacks' })).toBeNull();
  expect(screen.getByText('taken')).toBeTruthy();
});

const rowsOf = (list: Element): string[][] =>
  [...list.children].map(row => [...row.children].map(each => each.textContent));

test('what the notebook gave the ranks and what they gave out are rows, where there is any', () => {
  const { change } = panelOf('running');
  const rows = document.querySelector('.nbdist-given')!;

  expect(rowsOf(rows)).toEqual([
    ['From the notebook', 'df DataFrame, 48 MB', '+3'],
    ['Results', 'acc float, 0.93 · Rank 0', 'part not stored · Rank 1'],
  ]);
  change({ inputs: { values: [], more: 0 } });
  expect(rows.children).toHaveLength(1);
  change({ inputs: { values: [], more: 0 }, results: { values: [], more: 0 } });
  expect(document.querySelector('.nbdist-given')).toBeNull();
});

test('a Chinese page says so in Chinese', () => {
  document.documentElement.lang = 'zh-CN';
  panelOf('running');

  expect(rowsOf(document.querySelector('.nbdist-given')!)).toEqual([
    ['来自笔记本', 'df DataFrame, 48 MB', '+3'],
    ['结果', 'acc float, 0.93 · 进程 0', 'part 未保存 · 进程 1'],
  ]);
  document.documentElement.lang = 'en';
});
