/** @jest-environment jsdom */
import './page';

import { jest } from '@jest/globals';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import { MonitorFeed } from '../src/model/monitor';
import { Monitor, type MonitorSource } from '../src/views/Monitor';

const row = (rank: number, more: object = {}): object => ({
  rank: String(rank),
  device: `GPU ${rank % 8} · node ${rank >> 3}`,
  memory: '11.2/80 GB',
  memory_share: 0.14,
  state: 'Running',
  mark: 'running',
  last_line: `step ${rank}`,
  ill: false,
  ...more,
});
const run = (rows: object[], more: object = {}): object => ({
  run_id: '20261120-141503-lenet-k3f9',
  run: 'lenet-k3f9',
  live: true,
  mark: 'running',
  state: 'Running',
  last_line: '62 % · epoch 3/4',
  progress: 0.62,
  elapsed: '1:24',
  ranks: `${rows.length} ranks`,
  ill: false,
  rows,
  ...more,
});
const overview = (runs: object[], more: object = {}): object => ({
  kind: 'overview',
  time: '14:15:03',
  titles: { rank: 'Rank', ill: false },
  summary: '1 live run',
  ill: '',
  free: '',
  runs,
  others: [{ device: 'GPU 6 · H200', state: 'Free', free: true, ill: false }],
  lines: [],
  ...more,
});

afterEach(cleanup);

let seen: (entries: { isIntersecting: boolean }[]) => void;
globalThis.IntersectionObserver = class {
  constructor(hear: typeof seen) {
    seen = hear;
  }
  observe(): void {}
  disconnect(): void {}
} as never;

function draw(act_: MonitorSource['act'] = null): { sent: unknown[]; put: (news: object) => void } {
  const feed = new MonitorFeed();
  const sent: unknown[] = [];
  const source: MonitorSource = {
    feed,
    seen: now => sent.push(now),
    stop: runId => Promise.resolve(sent.push(runId) > 0),
    act: act_,
  };
  render(createElement(Monitor as never, { source }));
  return { sent, put: news => act(() => feed.receive(news)) };
}

test('the kernel is told when the monitor is seen, and when it is not for a second', () => {
  jest.useFakeTimers();
  const { sent } = draw();
  for (const isIntersecting of [true, false, true, false]) {
    act(() => seen([{ isIntersecting }]));
    jest.advanceTimersByTime(500);
  }
  jest.advanceTimersByTime(500);
  act(() => seen([{ isIntersecting: true }]));
  jest.advanceTimersByTime(1);
  act(cleanup);
  jest.advanceTimersByTime(1000);
  jest.useRealTimers();

  expect(sent).toEqual([true, false, true, false]);
});

test('each rank has a row, and a run can be stopped, attached, and opened', () => {
  const acts: unknown[] = [];
  const { sent, put } = draw((action, { run }, tab) => acts.push([action, run, tab]));
  put(overview([run([row(0), row(1, { ill: true, state: 'Failed, exit 1' })])]));
  ['Stop', 'Attach', 'Dashboard', 'Log'].forEach(name =>
    fireEvent.click(screen.getByRole('button', { name })),
  );

  expect(document.querySelectorAll('.nbdist-mon-run ~ tr:not(.nbdist-mon-below)')).toHaveLength(2);
  expect(document.querySelector('[data-ill="true"]')!.textContent).toContain('Failed, exit 1');
  expect(sent).toEqual(['20261120-141503-lenet-k3f9']);
  expect(acts).toEqual([
    ['attach', 'lenet-k3f9', undefined],
    ['open', 'lenet-k3f9', undefined],
    ['open', 'lenet-k3f9', 'all'],
  ]);
});

test('many ranks are squares, and those in trouble have a row of their own, too', () => {
  const { put } = draw();
  put(overview([run(Array.from({ length: 64 }, (_, rank) => row(rank, { ill: rank === 12 })))]));

  expect(screen.getAllByRole('img')).toHaveLength(64);
  expect(screen.getAllByRole('img')[12]!.title).toContain('GPU 4 · node 1');
  expect(
    document.querySelectorAll('.nbdist-mon-run ~ tr[data-ill="true"]:not(.nbdist-mon-below)'),
  ).toHaveLength(1);
});

test('where the page cannot act, it says which magic does', () => {
  const { put } = draw();
  put(overview([run([row(0)], { live: false })]));
  fireEvent.click(screen.getByRole('button', { name: 'Log' }));

  expect(screen.getByText('%dist_logs lenet-k3f9')).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull();
});

test('once no more comes it says of when it is', () => {
  jest.useFakeTimers();
  const { put } = draw();
  put(overview([]));
  act(() => void jest.advanceTimersByTime(5000));
  expect(screen.queryByText(/As of/)).toBeNull();
  act(() => void jest.advanceTimersByTime(3000));
  jest.useRealTimers();

  expect(screen.getByText('As of 14:15:03: the kernel is busy or has gone.')).toBeTruthy();
});

test('what is not an overview is let be', () => {
  const { put } = draw();
  put(overview([run([row(0)])]));
  put({ kind: 'overview', runs: 7 });

  expect(screen.getByText('lenet-k3f9')).toBeTruthy();
});
