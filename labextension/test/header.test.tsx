/** @jest-environment jsdom */
import { render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { decode, type Update } from '../src/protocol';
import { Header } from '../src/views/Header';
import { WORDS } from '../src/words';
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
