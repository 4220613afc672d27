/** @jest-environment jsdom */
import { cleanup, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { actForPanels } from '../src/page/actions';
import type { FailureView } from '../src/protocol/run';
import { Failure } from '../src/views/Notes';

const IN_CELL: FailureView = {
  rank: 1,
  headline: {
    en: 'rank 1 failed first: ValueError at line 2 of the cell',
    zh: '进程 1 最先失败：ValueError，单元格第 2 行',
  },
  message: 'ValueError: bad batch',
  line: 2,
  file: '',
  fileLine: null,
  source: '',
  cause: { en: '', zh: '' },
  fix: { en: '', zh: '' },
  notes: [],
  calls: [],
};
const IN_MODULE: FailureView = {
  ...IN_CELL,
  headline: {
    en: 'rank 1 failed first: ValueError at line 9 of pkg/models.py',
    zh: '进程 1 最先失败：ValueError，pkg/models.py 第 9 行',
  },
  file: 'pkg/models.py',
  fileLine: 9,
  source: 'raise ValueError(batch)',
};

function shown(failure: FailureView, language: 'en' | 'zh' = 'en'): HTMLElement {
  const nothing = () => undefined;
  const cell = 'import trainer\ntrainer.train()';
  document.documentElement.lang = language;
  const props = { failure, cell, onCellLine: nothing, onOpen: nothing };
  render(createElement(Failure, props));
  return screen.getByRole('alert');
}

test('a failure in the cell stands at its line, with the lines around it', () => {
  const alert = shown(IN_CELL);

  expect(alert.textContent).toContain('Rank 1 failed first: ValueError at line 2 of the cell');
  expect(alert.querySelector('[aria-current]')?.textContent).toBe('2trainer.train()');
});

test('a failure in a module stands at the line of the module, with a way to the line of the cell', () => {
  const alert = shown(IN_MODULE);

  expect(alert.textContent).toContain('Rank 1 failed first: ValueError at line 9 of pkg/models.py');
  expect(alert.querySelector('[aria-current]')?.textContent).toBe('9raise ValueError(batch)');
  expect(screen.getByRole('button', { name: 'Line 2 of the cell' })).toBeTruthy();
});

test('the way from the cell into modules stands with the lines around each, as links where the page opens files', () => {
  const call = (file: string, line: number) => ({
    ...{ file, path: file && `/home/ada/${file}`, line, first: line - 1 },
    source: `# before ${line}\nline_${line}()\n# after`,
  });
  const calls = [call('', 13), call('helpers.py', 9), call('helpers.py', 5)];
  const names = (): string[] =>
    [...document.querySelectorAll('.nbdist-calls > li > :first-child')].map(node => node.textContent);

  shown({ ...IN_MODULE, calls });
  expect(names()).toEqual(['cell line 13', 'helpers.py 9', 'helpers.py 5']);
  const marked = [...document.querySelectorAll('[aria-current]')].map(node => node.textContent);
  expect(marked).toEqual(['13line_13()', '9line_9()', '5line_5()']);
  expect(document.querySelectorAll('.nbdist-calls button')).toHaveLength(1);

  cleanup();
  actForPanels(() => undefined);
  shown({ ...IN_MODULE, calls });
  const link = screen.getByRole('button', { name: 'helpers.py 5' });
  expect({ ...link.dataset }).toEqual({ nbdistFile: '/home/ada/helpers.py', nbdistLine: '5' });
});

test('in Chinese the module is named, too', () => {
  expect(shown(IN_MODULE, 'zh').textContent).toContain('pkg/models.py 第 9 行');
});

test('the exception has its type, and a known error its cause and its fix', () => {
  const known = {
    ...IN_CELL,
    cause: { en: 'a label is too large', zh: '标签过大' },
    fix: { en: 'count the classes', zh: '检查类别数' },
  };

  expect(shown(known).textContent).toContain('ValueError: bad batch');
  const hint = (): string[] =>
    [...document.querySelectorAll('.nbdist-hint > div')].map(row => row.textContent);
  expect(hint()).toEqual(['Causea label is too large', 'Fixcount the classes']);

  cleanup();
  shown(known, 'zh');
  expect(hint()).toEqual(['原因标签过大', '解决方法检查类别数']);

  cleanup();
  shown(IN_CELL);
  expect(hint()).toEqual([]);
});

test('what is known beside the cause stands below it, a line each', () => {
  const notes = [
    { text: { en: 'values at line 2: x = None', zh: '第 2 行的值：x = None' } },
    { text: { en: 'x is set at line 1  x = load()', zh: 'x 来自第 1 行  x = load()' } },
  ];

  const alert = shown({ ...IN_CELL, notes });

  expect([...alert.querySelectorAll('dt')].map(node => node.textContent)).toEqual(['Details']);
  expect([...alert.querySelectorAll('dd > div')].map(node => node.textContent)).toEqual([
    'values at line 2: x = None',
    'x is set at line 1  x = load()',
  ]);
});
