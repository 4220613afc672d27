import { cellAgain, cellOf, contentsPath, unsavedRuns } from '../src/lab/cells/run_cell';
import { addMendingButton, linkedLine, linkLines } from '../src/lab/cells/output_links';
import {
  magicsAt,
  complete,
  firstLine,
  usedMagic,
  withFirstLine,
  withRanks,
} from '../src/lab/cells/magic_line';
import { type Option, type RunRow, runRow } from '../src/lab/services/client';
import { row, running } from './lab_fakes';

const BOTH = ['distributed', 'ranks'];
const option = (flags: string[], metavar = '', choices: string[] = [], magics = BOTH): Option => ({
  flags,
  metavar,
  choices,
  help: { en: `about ${flags[0]}`, zh: '' },
  many: flags[0] === '--env',
  magics,
});
const OPTIONS = [
  option(['-n', '--nproc'], 'N'),
  option(['--gpus'], '0,1|all'),
  option(['--framework'], 'NAME', ['auto', 'torch', 'paddle', 'none']),
  option(['--env'], 'K=V'),
  option(['-d', '--detach'], '', [], ['distributed']),
  option(['--idle'], 'TIME', [], ['ranks']),
];

test.each([
  ['%%distributed -n 2\nx', '%%distributed -n 2'],
  ['%%distributed', '%%distributed'],
  ['%%distributedness', null],
  ['x = 1\n%%distributed', null],
])('the first line of %j is %j', (source, line) => {
  expect(firstLine(source)).toBe(line);
});

test.each([
  ['a cell without the line gets it', 'x = 1', '%%distributed -n 2\nx = 1'],
  ['the line is changed in place', '%%distributed -n 8\nx = 1', '%%distributed -n 2\nx = 1'],
  ['an empty cell stays empty below', '%%distributed', '%%distributed -n 2'],
])('%s', (_about, source, written) => {
  expect(withFirstLine(source, '%%distributed -n 2')).toBe(written);
});

test.each([
  ['%%distributed', '%%distributed -n 2'],
  ['%%distributed --gpus=0,1 --env A="b c" -d', '%%distributed -n 2 --env A="b c" -d'],
  ['%%distributed --name a --nproc_per_node 4', '%%distributed -n 2 --name a'],
  ['%%distributed --devices "0, 1" --nodes 3', '%%distributed -n 2 --nodes 3'],
])('the ranks of %s are others, and the rest stays as written', (line, written) => {
  expect(withRanks(line, '-n 2')).toBe(written);
});

test.each([
  ['after the magic every option, in one spelling', '%%distributed ', 5],
  ['those that begin so', '%%distributed --', 5],
  ['not what is there already', '%%distributed -n 2 --', 4],
  ['the choices of an option', '%%distributed --framework ', 4],
  ['of those the ones that begin so', '%%distributed --framework p', 1],
  ['no option for a value', '%%distributed --gpus ', 0],
  ['an option that may come again', '%%distributed --env A=1 --en', 1],
  ['of live ranks their own, and those of both', '%%ranks -n 2 --', 4],
  ['by its other name', '%%rank 0 --id', 1],
  ['not the other magic’s', '%%distributed --id', 0],
])('completion: %s', (_about, line, count) => {
  expect(complete(line, line.length, OPTIONS)?.items.length ?? 0).toBe(count);
});

test('what is completed replaces the word that was begun', () => {
  expect(complete('%%distributed --fra', 19, OPTIONS)).toMatchObject({
    start: 14,
    items: [{ text: '--framework', label: '--framework NAME' }],
  });
});

test.each([
  ['/home/ada/work/a.ipynb', '~/work', 'a.ipynb'],
  ['/home/ada/work/deep/a.ipynb', '/home/ada/work', 'deep/a.ipynb'],
  ['/root/a.ipynb', '~', 'a.ipynb'],
  ['/elsewhere/a.ipynb', '/home/ada', null],
  ['deep/a.ipynb', '/home/ada', 'deep/a.ipynb'],
  ['', '/home/ada', null],
])('the notebook %j is, under %j, %j', (notebook, root, path) => {
  expect(contentsPath(notebook, root)).toBe(path);
});

test('a cell is found by its program, wherever it has gone, and else by its id', () => {
  const sources = ['import torch', '%%distributed -n 2\ntrain()\n', '%%distributed -n 2\nother()'];
  const cells = sources.map((source, at) => ({ source, id: `c${at}` }));
  expect(cellOf(cells, '\ntrain()', 'c7')).toBe(1);
  expect(cellOf(cells, 'train()', 'c2')).toBe(1);
  expect(cellOf(cells, 'gone()', 'c2')).toBe(2);
  expect(cellOf(cells, 'gone()', '')).toBe(-1);
  const twice = [...cells, { source: sources[1]!, id: 'c3' }];
  expect(cellOf(twice, 'train()', 'c1')).toBe(1);
  expect(cellOf(twice, 'train()', '')).toBe(3);
});

test.each([
  ['%%distributed -n 2\ntrain()', { kind: 'cell', name: 'distributed' }],
  ['\n%%distributed', { kind: 'cell', name: 'distributed' }],
  ['x = 1\n%dist_status', { kind: 'line', name: 'dist_status' }],
  ['run = %distributed -d -n 2 train.py', { kind: 'line', name: 'distributed' }],
  ['for name in names:\n    %dist_logs {name}', { kind: 'line', name: 'dist_logs' }],
  ['%%distributedly', null],
  ['%%ranks -n 2\nx = 1', { kind: 'cell', name: 'ranks' }],
  ['%%rank', { kind: 'cell', name: 'rank' }],
  ['%%distributed?', { kind: 'cell', name: 'distributed' }],
  ['share = 7 %dist_status', null],
  ['%load_ext nbdist', null],
])('the magic of nbdist in %j is %j', (source, magic) => {
  expect(usedMagic(source)).toEqual(magic);
});

test('the file of a notebook has nothing of runs that ended after it was saved, or go on', () => {
  const of = (label: string, given: object): RunRow =>
    runRow(row(label, { notebook: '/w/n.ipynb', ...given }));
  const rows = [
    of('ended-1', { created: 1, ended: 90 }),
    of('later-2', { created: 2, ended: 110 }),
    of('live-3', { ...running, created: 3 }),
    of('other-4', { ...running, notebook: '/w/other.ipynb' }),
    of('apart-5', { ...running, created: 50, detached: true }),
    of('apart-6', { ...running, created: 120, detached: true }),
  ];
  const labels = unsavedRuns(rows, 'n.ipynb', 100).map(({ label }) => label);
  expect(labels).toEqual(['apart-6', 'live-3', 'later-2']);
});

test.each([
  ['<div class="nbdist"><button class="nbdist-cell-link" title="Line 14 of the cell">x</button></div>', 14],
  ['<div class="nbdist"><button data-cell-line="3"><b>x</b></button></div>', 3],
  ['<div class="nbdist-summary"><pre><span class="n-at">▸   5  raise</span></pre></div>', 5],
  ['<div class="nbdist-summary"><pre class="n-other"><i class="n-at">▸   5  raise</i></pre></div>', null],
  ['<div class="nbdist-summary"><b>rank 1 failed first: ValueError at line 4 of the cell</b></div>', 4],
  ['<div class="nbdist"><div class="nbdist-failure"><button>单元格第 12 行</button></div></div>', 12],
  ['<div class="other"><button title="Line 14 of the cell">x</button></div>', null],
])('%s leads to line %j', (html, line) => {
  document.body.innerHTML = html;
  const deepest = [...document.body.querySelectorAll('*')].at(-1)!;
  expect(linkedLine(deepest)).toBe(line);
});

test('lines that an error names become links, each once', () => {
  document.body.innerHTML =
    '<pre><span>RunFailed</span>: ValueError at line 4 of the cell\n  cell line 6, in f\n  cell line 4</pre>';
  const error = document.querySelector('pre')!;
  const text = error.textContent;

  linkLines(error);
  linkLines(error);

  const links = [...error.querySelectorAll('button')];
  expect(links.map(link => [link.textContent, linkedLine(link), link.title])).toEqual([
    ['line 4 of the cell', 4, 'Line 4 of the cell'],
    ['cell line 6', 6, 'Line 6 of the cell'],
    ['cell line 4', 4, 'Line 4 of the cell'],
  ]);
  expect(error.textContent).toBe(text);
});

test("a copy of a run's cell begins as the cell does, and without one as the run was started", () => {
  const cells = [
    { id: 'a', source: '%%distributed -n 4 --name net\ntrain()' },
    { id: 'b', source: '%%distributed -n 2\nother()' },
  ];

  expect(cellAgain(cells, '\ntrain()', '%%distributed --nproc 4')).toBe(
    '%%distributed -n 4 --name net\ntrain()',
  );
  expect(cellAgain(cells, '\ngone()\n', '%%distributed --nproc 4')).toBe('%%distributed --nproc 4\ngone()\n');
  expect(cellAgain(cells, 'import this', '%distributed --nproc 2 /a/train.py --lr 0.1')).toBe(
    '%distributed --nproc 2 /a/train.py --lr 0.1',
  );
});

test('a magic is completed before the kernel knows it', () => {
  const namesAt = (line: string, column: number) => magicsAt(line, column)?.items.map(({ text }) => text);

  expect(magicsAt('%dist_st', 8)!.start).toBe(0);
  expect(namesAt('%dist_st', 8)).toEqual(['%dist_stacks', '%dist_status', '%dist_stop']);
  expect(namesAt('runs = %%ra', 11)).toEqual(['%%ranks', '%%rank']);
  expect(magicsAt('x % dist', 8)).toBeNull();
});

test('a mended line is offered once, and written by a click', () => {
  const place = document.createElement('div');
  Object.assign(place.dataset, { line: '%%distributed -n 2 --push lr', label: 'Add --push lr and run' });
  const written: string[] = [];
  addMendingButton(place, line => written.push(line));
  addMendingButton(place, line => written.push(line));
  place.querySelector('button')!.click();
  expect(place.textContent).toBe('Add --push lr and run');
  expect(written).toEqual(['%%distributed -n 2 --push lr']);
});
