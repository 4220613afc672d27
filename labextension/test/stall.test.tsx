/** @jest-environment jsdom */
import { jest } from '@jest/globals';
import { fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { decode, type RunView, type Update } from '../src/protocol/run';
import { Ranks } from '../src/views/ranks/Ranks';
import { hangs, heldRanks, Stacks, StallBanner } from '../src/views/Stall';
import { pageNow } from '../src/model/run_model';
import { sample } from './samples';

function stalled(): RunView {
  const { content, buffers } = sample('stalled');
  return (decode(content, buffers) as Update).view!;
}

function shown({ again, interrupt }: StallActions, language = 'en'): void {
  document.documentElement.lang = language;
  const view = stalled();
  const stall = view.stall!;
  const onCellLine = () => undefined;
  const banner = createElement(StallBanner, { view, stall, viewAt: pageNow(), interrupt });
  const stacks = createElement(Stacks, { stall, again, onCellLine });
  render(createElement('div', null, banner, stacks));
}

type StallActions = Pick<Parameters<typeof Stacks>[0], 'again'> &
  Pick<Parameters<typeof StallBanner>[0], 'interrupt'>;

const UNHEARD: StallActions = { again: null, interrupt: null };

test('who waits for whom is said once, with how long nothing has happened', () => {
  shown(UNHEARD);

  const alert = screen.getByRole('alert');
  expect(document.body.textContent).toContain('No progress for 61 s: rank 1 is in time.sleep at line 9');
  // read aloud once, and not with each second
  expect(alert.textContent).toMatch(/^rank 1 is in time.sleep at line 9/);
});

test('the stacks stand below it, with the line of the cell marked', () => {
  shown(UNHEARD);

  const here = [...document.querySelectorAll('.nbdist-stack-row[data-here="true"]')];
  expect(here.map(row => row.textContent)).toEqual([
    'augmentcell line 9time.sleep(120)',
    'sync_gradientscell line 14dist.all_reduce(p.grad)',
  ]);
});

test('in Chinese it is said in Chinese', () => {
  shown(UNHEARD, 'zh');

  expect(document.body.textContent).toContain('61 秒没有进展：进程 1 在第 9 行的 time.sleep 中');
});

test('what the kernel would not hear is not offered', () => {
  shown(UNHEARD);

  expect(screen.queryByText('Interrupt rank 1')).toBeNull();
  expect(screen.queryByText('Take again')).toBeNull();
});

test('the rank that holds the others up can be interrupted, and the stacks be taken again', () => {
  const again = jest.fn();
  const interrupt = jest.fn();
  shown({ again, interrupt });

  fireEvent.click(screen.getByText('Interrupt rank 1'));
  fireEvent.click(screen.getByText('Take again'));

  expect(interrupt).toHaveBeenCalledWith(1);
  expect(again).toHaveBeenCalledTimes(1);
});

test('a reader who keeps waiting is left in peace, and still has the stacks', () => {
  shown(UNHEARD);

  fireEvent.click(screen.getByText('Keep waiting'));

  expect(screen.queryByRole('alert')).toBeNull();
  expect(screen.getByText('Stacks')).toBeTruthy();
});

test('the table says what each rank does, while the run goes on', () => {
  const view = stalled();

  expect(hangs(view)).toBe(true);
  expect(heldRanks(view).get(1)).toMatchObject({ kind: 'held', what: 'time.sleep' });
  expect(heldRanks(view).get(0)).toMatchObject({ kind: 'waits', what: 'all_reduce' });
  expect(heldRanks({ ...view, state: 'failed', live: false }).size).toBe(0);
});

function ranksOf(view: RunView): HTMLElement {
  document.documentElement.lang = 'en';
  const nothing = (): void => undefined;
  const choice = { selected: 0, onSelect: nothing, onOpen: nothing } as const;
  return render(createElement(Ranks, { view, ...choice })).container as HTMLElement;
}

/** `count` ranks, of which nobody knows what they do. */
function hanging(count: number): RunView {
  const view = stalled();
  const ranks = Array.from({ length: count }, (_, rank) => ({
    ...view.ranks[0]!,
    rank,
    lastLine: `step 3 of rank ${rank}`,
  }));
  return { ...view, ranks, stall: { ...view.stall!, groups: [] } };
}

test('ranks of a run that hangs do not read "Running", in the table or the grid', () => {
  expect(ranksOf(hanging(2)).textContent).toContain('Stalled');
  expect(ranksOf(stalled()).textContent).toMatch(/Waiting.*Stuck/);
  const grid = ranksOf(hanging(16));
  expect(grid.textContent).toContain('16 stalled');
  expect(grid.textContent).toContain('step 3 of rank 0');
  expect(document.body.textContent).not.toMatch(/running/i);
});

test('once the run has ended, what its ranks used is called peak and mean', () => {
  const ended = (count: number): RunView => {
    const view = hanging(count);
    const ranks = view.ranks.map(rank => ({ ...rank, state: 'finished' as const, memory: 8e9, rate: 2 }));
    return { ...view, ranks, live: false, state: 'finished', stall: null };
  };

  expect(ranksOf(ended(2)).textContent).toMatch(/Peak memory.*Mean utilisation.*Mean step rate.*8\.0/);
  expect(ranksOf(ended(9)).textContent).toMatch(/Mean utilisation 0–200 %.*Peak memory.*Mean step rate/);
});
