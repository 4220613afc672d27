/** @jest-environment jsdom */
import './page';
import { render, screen } from '@testing-library/preact';
import { createElement } from 'react';
import type { FailureView } from '../src/protocol';
import { Failure } from '../src/views/Failure';
import { WORDS } from '../src/words';

const IN_CELL: FailureView = {
  rank: 1,
  headline: 'rank 1 failed first: ValueError at line 2 of the cell',
  message: 'bad batch',
  line: 2,
  file: '',
  fileLine: null,
  source: '',
};
const IN_MODULE: FailureView = {
  ...IN_CELL,
  headline: 'rank 1 failed first: ValueError at line 9 of pkg/models.py',
  file: 'pkg/models.py',
  fileLine: 9,
  source: 'raise ValueError(batch)',
};

function shown(failure: FailureView, language: 'en' | 'zh' = 'en'): HTMLElement {
  const nothing = () => undefined;
  const cell = 'import trainer\ntrainer.train()';
  const props = { failure, cell, words: WORDS[language], onCellLine: nothing, onOpen: nothing };
  render(createElement(Failure, props));
  return screen.getByRole('alert');
}

test('a failure in the cell stands at its line, with the lines around it', () => {
  const alert = shown(IN_CELL);

  expect(alert.textContent).toContain('Rank 1 failed first · ValueError at line 2 of the cell');
  expect(alert.querySelector('[aria-current]')?.textContent).toBe('2trainer.train()');
});

test('a failure in a module stands at the line of the module, with a way to the line of the cell', () => {
  const alert = shown(IN_MODULE);

  expect(alert.textContent).toContain('Rank 1 failed first · ValueError at line 9 of pkg/models.py');
  expect(alert.querySelector('[aria-current]')?.textContent).toBe('9raise ValueError(batch)');
  expect(screen.getByRole('button', { name: 'Line 2 of the cell' })).toBeTruthy();
});

test('in Chinese the module is named, too', () => {
  expect(shown(IN_MODULE, 'zh').textContent).toContain('pkg/models.py 第 9 行');
});
