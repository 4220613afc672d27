/** @jest-environment jsdom */
import './page';
import { readFileSync } from 'node:fs';

import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/preact';
import { createElement } from 'react';

import { SweepPanel, type SweepSource } from '../src/views/compare/SweepPanel';

const SWEEP = JSON.parse(readFileSync('../tests/fixtures/sweep.json', 'utf8')) as Record<string, unknown>;

afterEach(cleanup);

interface Fake extends SweepSource {
  send: (news: unknown) => void;
}

function draw(open: SweepSource['open'] = null, stop = (): Promise<boolean> => Promise.resolve(true)): Fake {
  let news: unknown = SWEEP;
  const hearers = new Set<() => void>();
  const source: Fake = {
    news: () => news,
    listen: hear => {
      hearers.add(hear);
      return () => hearers.delete(hear);
    },
    stop,
    open,
    send: next => {
      news = next;
      hearers.forEach(hear => hear());
    },
  };
  render(createElement(SweepPanel as never, { source }));
  return source;
}

const names = (): (string | null)[] =>
  screen
    .getAllByRole('row')
    .slice(1)
    .map(each => within(each).getAllByRole('button')[0]!.textContent);

test('the best point stands first, those that have failed and those that wait last', () => {
  draw();

  expect(names()).toEqual(['lenet-2-aaab', 'lenet-1-aaaa', 'lenet-3-aaac', 'lenet-4-aaad']);
  expect(screen.getByText('3 of 4 points · 1 failed · 1 waiting')).toBeTruthy();
  expect(document.querySelector('th[aria-sort="ascending"]')!.textContent).toBe('loss ▴best');
  expect(screen.getByText('the time limit of 60 s was reached')).toBeTruthy();
});

test('the best point and those that diverged are marked', () => {
  const source = draw();
  act(() => source.send({ ...SWEEP, diverged: [0] }));
  const rowOf = (name: string): HTMLElement => screen.getByRole('button', { name }).closest('tr')!;

  expect(within(rowOf('lenet-2-aaab')).getByRole('img', { name: 'best run' })).toBeTruthy();
  expect(screen.getAllByRole('img', { name: 'best run' })).toHaveLength(1);
  expect(within(rowOf('lenet-1-aaaa')).getByText('diverged')).toBeTruthy();
});

test('a column that the reader chooses stays when news come', () => {
  const source = draw();

  fireEvent.click(screen.getByRole('button', { name: /^lr/ }));
  act(() => source.send({ ...SWEEP, live: false, state: 'failed' }));

  expect(names()).toEqual(['lenet-3-aaac', 'lenet-4-aaad', 'lenet-1-aaaa', 'lenet-2-aaab']);
  expect(screen.queryByRole('button', { name: 'Stop' })).toBeNull();
  expect(screen.getByText('Failed', { selector: '.nbdist-pill' })).toBeTruthy();
});

test('a click on a point opens its run where the page can, and else says how', () => {
  const opened: string[][] = [];
  draw((runId, label) => opened.push([runId, label]));
  fireEvent.click(screen.getByRole('button', { name: 'lenet-2-aaab' }));
  expect(opened).toEqual([['20261120-141503-lenet-2-aaab', 'lenet-2-aaab']]);
  cleanup();

  draw();
  fireEvent.click(screen.getByRole('button', { name: 'lenet-2-aaab' }));
  expect(screen.getByText('%dist_attach lenet-2-aaab')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'lenet-4-aaad' }));
  expect(screen.getByText(/lenet-4-aaad has not started yet/)).toBeTruthy();
});

test('a scale is a table of its points, with their speed-up and what it means', () => {
  const opened: string[] = [];
  const table = [
    ['ranks', 'samples/s'],
    ['1', '780'],
    ['2', '1,455'],
    ['4', ''],
    ['8', ''],
  ];
  const source = draw((_, label) => opened.push(label));
  const scale = { table, sentence: '1.9 ×' };
  act(() => source.send({ ...SWEEP, scale }));

  expect(names().map(name => name!.slice(-1))).toEqual(['1', '2', '4', '8']);
  expect(screen.getByText('1.9 ×')).toBeTruthy();
  expect(screen.getAllByRole('cell').map(cell => cell.textContent)).toEqual(['780', '1,455', '–', '–']);
  fireEvent.click(screen.getAllByTitle('lenet-2-aaab')[0]!);
  expect(opened).toEqual(['lenet-2-aaab']);
});

test('Stop is asked for once, and again where it could not be', async () => {
  const answers = [false, true];
  draw(null, () => Promise.resolve(answers.shift()!));

  fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
  await act(() => Promise.resolve());
  fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
  await act(() => Promise.resolve());

  expect(answers).toEqual([]);
  expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Stopping…' }).disabled).toBe(true);
});
