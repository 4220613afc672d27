/** @jest-environment jsdom */
import { expect, jest, test } from '@jest/globals';
import { fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { debugAnswers, type RankView, viewOf } from '../src/protocol/run';
import { type Ask, Debugger } from '../src/views/Debugger';

const rank = (number: number): object => ({
  rank: number,
  state: 'running',
  exit: 'held at line 4: breakpoint()',
  held: true,
  values: ['loss = 0.5'],
});
const HELD = { run_id: 'a', label: 'a', state: 'running', live: true, elapsed: 1, ranks: [rank(0), rank(1)] };

function shown(held: readonly RankView[], answer: object | null): jest.Mock<Ask> {
  const ask = jest.fn<Ask>(() => Promise.resolve(debugAnswers(answer)));
  render(createElement(Debugger, { held, ask }));
  return ask;
}

const box = (): HTMLTextAreaElement => screen.getByRole('textbox');

function type(text: string, key = 'Enter'): void {
  box().value = text;
  fireEvent.keyDown(box(), { key });
}

test('a command goes to every held rank that is shown, and each answer stands there once', async () => {
  const held = viewOf({ view: HELD })!.ranks;
  const ask = shown(held, { answers: [{ ranks: '0–1', text: '0.5' }] });
  expect(document.body.textContent).toContain('held at line 4: breakpoint()loss = 0.5');

  type('p loss');

  expect(ask.mock.calls).toEqual([[[0, 1], 'p loss']]);
  expect((await screen.findByText(/0–1: 0.5/)).textContent).toBe('(Pdb) p loss\n0–1: 0.5');
  fireEvent.keyDown(box(), { key: 'ArrowUp' });
  expect(box().value).toBe('p loss');
});

test('a tabulator ends a word, and what cannot be sent is said', async () => {
  const held = viewOf({ view: HELD })!.ranks.slice(1);
  const ask = shown(held, { answers: [{ ranks: '1', text: 'loss.item' }] });

  type('p loss.it', 'Tab');
  await ask.mock.results[0]!.value;
  await Promise.resolve();
  expect(box().value).toBe('p loss.item');

  ask.mockResolvedValueOnce(null);
  type('n');
  expect(await screen.findByText(/prompt of the cell/)).toBeTruthy();
});
