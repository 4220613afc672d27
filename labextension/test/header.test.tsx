/** @jest-environment jsdom */
import { jest } from '@jest/globals';
import { act, fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import { chooseIn } from './page';
import { decode, type Update } from '../src/protocol/run';
import { Header } from '../src/views/Header';
import { WORDS } from '../src/words/panel';
import { sample } from './samples';

test('a run that goes on says below its head what it still waits for, with Stop beside its time', () => {
  const { content, buffers } = sample('running');
  const view = (decode(content, buffers) as Update).view!;
  const reason = 'waiting for ranks that are still importing torch';
  const props = {
    view: { ...view, state: 'running', live: true, reason: { en: reason, zh: reason } },
    viewAt: 10,
    narrow: false,
    stopping: false,
    onStop: () => undefined,
    onCopy: () => undefined,
    onBoard: () => undefined,
  };

  render(createElement(Header, props as never));

  expect(screen.getByText(reason).getAttribute('role')).toBe('status');
  expect(screen.getByText(WORDS.en.stop)).toBeTruthy();
});

test('of a run that has ended the menu has a copy of its cell, done by the page or copied, and its head says from where it went on', () => {
  const { content, buffers } = sample('running');
  const view = (decode(content, buffers) as Update).view!;
  const actions: string[] = [];
  const props = {
    view: { ...view, state: 'failed', live: false, resumed: 'lenet-k3f9' },
    viewAt: 10,
    narrow: false,
    stopping: false,
    onStop: () => undefined,
    onCopy: () => undefined,
    onBoard: null,
    onCopyCell: () => actions.push('copied'),
  };
  const choose = (name: string): void => {
    chooseIn(screen.getByRole('combobox', { name: WORDS.en.menu }), name);
  };

  const { rerender } = render(createElement(Header, props as never));
  choose(WORDS.en.copyCell);
  rerender(createElement(Header, { ...props, onAct: (action: string) => actions.push(action) } as never));
  choose(WORDS.en.runAgainWith);

  expect(actions).toEqual(['copied', 'againWith']);
  expect(screen.getByText(WORDS.en.goesOnFrom('lenet-k3f9'))).toBeTruthy();
  expect(screen.queryByText(WORDS.en.copyCell)).toBeNull();
});

test('a run that its user has stopped says so in its first line, once', () => {
  const { content, buffers } = sample('running');
  const view = (decode(content, buffers) as Update).view!;
  const sentence = 'You stopped it at step 61/2000';
  const props = {
    view: { ...view, state: 'stopped', live: false, failure: null, reason: { en: sentence, zh: sentence } },
    viewAt: 10,
    narrow: false,
    stopping: false,
    onStop: () => undefined,
    onCopy: () => undefined,
    onBoard: null,
  };

  const { rerender } = render(createElement(Header, { ...props, step: 13 } as never));
  expect(screen.getByText(`${sentence}, at step 13`)).toBeTruthy();
  rerender(createElement(Header, props as never));

  expect(screen.getByText(sentence).closest('.nbdist-head')).not.toBeNull();
  expect(document.querySelector('.nbdist-note')).toBeNull();
  expect(screen.queryByText(/ended at/)).toBeNull();
});

test('Stop becomes Stop now after a while, and not under the pointer that has clicked it', () => {
  jest.useFakeTimers();
  const { content, buffers } = sample('running');
  const view = (decode(content, buffers) as Update).view!;
  let stops = 0;
  const props = {
    view: { ...view, state: 'running', live: true },
    viewAt: 10,
    narrow: false,
    stopping: false,
    onStop: () => (stops += 1),
    onCopy: () => undefined,
    onBoard: null,
  };
  const button = (): HTMLButtonElement => screen.getByRole('button', { name: /^Stop/ });
  const { rerender } = render(createElement(Header, props as never));
  const around = button().parentElement!;

  let over = true;
  around.matches = () => over;
  fireEvent.click(button());
  rerender(createElement(Header, { ...props, stopping: true } as never));
  act(() => void jest.advanceTimersByTime(5000));
  const under = [button().textContent, button().disabled];
  over = false;
  act(() => void jest.advanceTimersByTime(5000));
  const away = [button().textContent, button().disabled];
  fireEvent.click(button());

  expect(under).toEqual([WORDS.en.stopping, true]);
  expect(away).toEqual([WORDS.en.stopNow, false]);
  expect([stops, button().textContent]).toEqual([2, WORDS.en.stopping]);
  jest.useRealTimers();
});

test('a click that was meant for Stop starts nothing when the run has just ended', () => {
  jest.useFakeTimers();
  const { content, buffers } = sample('running');
  const view = (decode(content, buffers) as Update).view!;
  const actions: string[] = [];
  const props = {
    viewAt: 10,
    narrow: false,
    stopping: true,
    onStop: () => undefined,
    onCopy: () => undefined,
    onBoard: null,
    onAct: (action: string) => actions.push(action),
  };
  const draw = (live: boolean): object => ({
    ...props,
    view: { ...view, state: live ? 'stopping' : 'stopped', live },
  });
  const { rerender } = render(createElement(Header, draw(true) as never));
  rerender(createElement(Header, draw(false) as never));
  const again = screen.getByRole('button', { name: WORDS.en.runAgain });

  again.click();
  act(() => void jest.advanceTimersByTime(1600));
  again.click();

  expect(actions).toEqual(['again']);
  jest.useRealTimers();
});
