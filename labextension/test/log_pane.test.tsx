import { afterEach, expect, jest, test } from '@jest/globals';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/preact';

import { RunLog } from '../src/log/run_log';
import { LogPane, type LogPaneProps } from '../src/views/LogPane';
import { delta, FakeTurns, numbered } from './log_fakes';

afterEach(() => {
  cleanup();
  document.documentElement.lang = '';
});

function show(log: RunLog, props: Partial<LogPaneProps> = {}) {
  const all = {
    log,
    worldSize: 2,
    selected: null,
    label: 'lenet',
    narrow: false,
    onCellLine: () => {},
  };
  const pane = (more: Partial<LogPaneProps>) => <LogPane {...all} {...props} {...more} />;
  const { rerender } = render(pane({}));
  return {
    again: (more: Partial<LogPaneProps>) => rerender(pane(more)),
  };
}

const makeLog = () => new RunLog({ turns: new FakeTurns() });
const frame = () => act(() => new Promise<void>(done => requestAnimationFrame(() => done())));
const lines = () => [...document.querySelectorAll('.nbdist-line')].map(row => row.textContent);
const button = (name: string) => screen.getByRole('button', { name });
const type = async (text: string) => {
  fireEvent.input(screen.getByRole('searchbox'), { target: { value: text } });
  await frame();
};

test('rows show rank, time and text; folded ones how many', async () => {
  const log = makeLog();
  log.receive(
    [0, 1].map(rank => delta(rank, 0, ['both', `only ${rank}`], { times: [[2, 62.14]] })),
    null,
  );

  show(log);
  await frame();

  expect(lines()).toEqual(['0–11:02.1both×2', '01:02.1only 0', '11:02.1only 1']);
  expect(screen.getByText('4 lines, 1 folded')).toBeTruthy();
});

test('only the rows in view are in the document', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, numbered(5000))], null);

  show(log, { selected: 0 });
  await frame();

  expect(lines().length).toBeLessThan(60);
  expect(lines().at(-1)).toContain('line 4999');
});

test('text of the log never becomes markup', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, ['<b>bold</b><img src=x>'])], null);

  show(log);
  await frame();

  expect(document.querySelector('.nbdist-line b, .nbdist-line img')).toBeNull();
  expect(lines()[0]).toContain('<b>bold</b>');
});

test('a run that has ended without a line has no output, and none to come', () => {
  show(makeLog(), { ended: true });

  expect(screen.getByText('No output.')).toBeTruthy();
});

test('lines that come are drawn with the next frame', async () => {
  const log = makeLog();
  show(log);
  expect(screen.getByText('No output yet.')).toBeTruthy();

  log.receive([delta(0, 0, ['hello'])], null);
  await frame();

  expect(lines()).toEqual(['00:00.0hello']);
  expect(screen.queryByText('No output yet.')).toBeNull();
});

test('an import is named until the first line', () => {
  show(makeLog(), { importing: 'Importing torch, 6 s' });
  expect(screen.getByText('Importing torch, 6 s')).toBeTruthy();
});

test('search goes to the last match when following, and from match to match', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, ['needle 1', 'hay', 'Needle 2', 'hay', 'needle 3'])], null);
  show(log);

  await type('NEEDLE');
  expect(document.querySelector('.nbdist-count[role=status]')!.textContent).toBe('3/3');
  expect(document.querySelectorAll('mark')).toHaveLength(3);
  expect(button('Follow').getAttribute('aria-pressed')).toBe('false');

  const box = screen.getByRole('searchbox', { name: 'Search' });
  fireEvent.keyDown(box, { key: 'Enter', shiftKey: true });
  await frame();
  expect(document.querySelector('.nbdist-count')!.textContent).toBe('2/3');
  expect(document.querySelector('mark.nbdist-now')!.textContent).toBe('Needle');
  fireEvent.keyDown(box, { key: 'Enter' });
  fireEvent.keyDown(box, { key: 'Enter' });
  await frame();
  expect(document.querySelector('.nbdist-count')!.textContent).toBe('1/3');

  fireEvent.keyDown(box, { key: 'Escape' });
  await frame();
  expect(document.querySelectorAll('mark')).toHaveLength(0);
  expect(document.activeElement).toBe(screen.getByRole('log'));
});

test('matches that touch each other, reach into another colour or stand in a link are each marked once', async () => {
  const log = makeLog();
  const link = '  File "/x/runs/r/cell.py", line 14';
  log.receive([delta(0, 0, ['aaaa', 'a\x1b[31maa', 'banana '.repeat(400), `${link}aa`])], null);
  show(log);

  await type('aa');

  const marks = [...document.querySelectorAll('mark')].map(mark => mark.textContent);
  expect(marks).toEqual(['aa', 'aa', 'a', 'a', 'aa']);
  expect(document.querySelector('.nbdist-cell-link')!.textContent).toBe('line 14');
  expect(lines()[1]).toContain('aaa');
  expect(lines()[2]).toHaveLength('00:00.0'.length + 1000 + '… 1,800 more'.length);
});

test('keys in the search box are not for the notebook', () => {
  const outside = jest.fn();
  document.body.addEventListener('keydown', outside);
  show(makeLog());

  fireEvent.keyDown(screen.getByRole('searchbox'), { key: 'x' });

  expect(outside).not.toHaveBeenCalled();
  document.body.removeEventListener('keydown', outside);
});

test('a pause counts what comes, and following again shows it', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, numbered(100))], null);
  show(log, { selected: 0 });
  await frame();

  fireEvent.click(button('Follow'));
  log.receive([delta(0, 100, ['new one', 'new two'])], null);
  await frame();
  expect(button('Follow').textContent).toContain('2 new');

  fireEvent.click(button('Follow'));
  await frame();
  expect(button('Follow').getAttribute('aria-pressed')).toBe('true');
  expect(lines().at(-1)).toContain('new two');
});

test('a pause does not count older lines that are put in their places', async () => {
  const log = makeLog();
  log.receive([delta(0, 4000, numbered(100, 4000))], null);
  show(log, { selected: 0 });
  await frame();

  fireEvent.click(button('Follow'));
  log.receive([delta(0, 3900, numbered(100, 3900))], null);
  await frame();
  expect(button('Follow').textContent).not.toContain('new');

  log.receive([delta(0, 2800, numbered(100, 2800)), delta(0, 4100, ['new one'])], null);
  await frame();
  expect(button('Follow').textContent).toContain('1 new');
});

test('a pause before the first line counts from what comes first', async () => {
  const log = makeLog();
  show(log, { selected: 0 });
  await frame();

  fireEvent.click(button('Follow'));
  log.receive([delta(0, 4000, numbered(100, 4000))], null);
  await frame();
  expect(button('Follow').textContent).not.toContain('new');
  log.receive([delta(0, 4100, ['new one'])], null);
  await frame();

  expect(button('Follow').textContent).toContain('1 new');
});

test('a line of the cell in a traceback is a way to the cell', async () => {
  const log = makeLog();
  const onCellLine = jest.fn();
  const file = '/home/x/.local/state/nbdist/runs/20261120-lenet/cell.py';
  log.receive([delta(0, 0, [`  File "${file}", line 14, in f`, '  File "/x/cell.py", line 3, in g'])], null);

  show(log, { onCellLine });
  await frame();
  fireEvent.click(button('cell line 14'));

  expect(onCellLine).toHaveBeenCalledWith(14);
  expect(screen.queryByRole('button', { name: 'cell line 3' })).toBeNull();
  expect(lines()[0]).toContain(`File "${file}", line 14, in f`);
});

test('an over-long line is cut, and shown whole when asked', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, ['x'.repeat(15_383)])], null);
  show(log);
  await frame();
  expect(lines()[0]!.length).toBeLessThan(1100);

  fireEvent.click(button('… 14,383 more'));
  expect(screen.getByRole('region', { name: 'Full line' }).textContent).toContain('x'.repeat(15_383));

  fireEvent.click(button('Close'));
  expect(screen.queryByRole('region', { name: 'Full line' })).toBeNull();
});

test('lines that still grow are at the foot, one for each rank', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, ['done'], { partial: '48 %' }), delta(1, 0, [], { partial: '50 %' })], null);
  const { again } = show(log);
  await frame();
  const live = () => [...document.querySelectorAll('.nbdist-live-line')].map(row => row.textContent);
  expect(live()).toEqual(['048 %', '150 %']);

  again({ selected: 1 });
  await frame();

  expect(live()).toEqual(['150 %']);
});

test('rows of nested bars that still change are at the foot, one below the other', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, ['done'], { partial: 'epochs 1/2\n\nsteps 3/5' }), delta(1, 0, [])], null);
  show(log);
  await frame();

  const live = [...document.querySelectorAll('.nbdist-live-line')].map(row => row.textContent);
  expect(live).toEqual(['0epochs 1/2', '0steps 3/5']);
});

test('while nothing but bars move, nothing is said of no output', async () => {
  const log = makeLog();
  show(log);
  await frame();
  expect(screen.getByText('No output yet.')).toBeTruthy();

  log.receive([delta(0, 0, [], { partial: 'epochs 1/2\nsteps 3/5' })], null);
  await frame();

  expect(screen.queryByText('No output yet.')).toBeNull();
  expect(screen.getByRole('log').classList).toContain('nbdist-without-rows');
});

test('the first error is a button when there is one', async () => {
  const log = makeLog();
  log.receive([delta(0, 0, numbered(500))], null);
  show(log);
  await frame();
  expect(screen.queryByRole('button', { name: 'First error' })).toBeNull();

  log.receive([delta(0, 500, ['ValueError: no', ...numbered(500, 500)])], null);
  await frame();
  fireEvent.click(button('First error'));
  await frame();

  expect(document.querySelector('.nbdist-pointed')!.textContent).toContain('ValueError: no');
  fireEvent.click(button('Follow'));
  await frame();
  expect(lines().at(-1)).toContain('line 999');
});

test('copy takes the rows and says how many', async () => {
  const written: string[] = [];
  const clipboard = { writeText: (text: string) => Promise.resolve(void written.push(text)) };
  Object.defineProperty(navigator, 'clipboard', { value: clipboard, configurable: true });
  const log = makeLog();
  log.receive(
    [0, 1].map(rank => delta(rank, 0, ['\x1b[32mboth\x1b[0m', `only ${rank}`])),
    null,
  );
  show(log);
  await frame();

  fireEvent.click(button('Copy'));
  await frame();

  expect(written).toEqual(['[0–1] both\n[0] only 0\n[1] only 1']);
  expect(screen.getByText('copied 3 lines')).toBeTruthy();
});

test('gaps and passed-over bytes are told in words', async () => {
  const log = makeLog();
  log.receive([delta(0, 12, ['a']), delta(0, 4109, ['b'], { skipped: 4096, times: [[1, 13]] })], null);

  document.documentElement.lang = 'zh';
  show(log);
  await frame();

  expect(lines()).toEqual(['0… 日志有 12 字节 未到达此页面。用 %dist_logs 查看全部', '00:12.0a', '0… 此处略过 4,096 字节。用 %dist_logs 查看全部', '00:13.0b']); // prettier-ignore
});

test('the log and its tools have names and states', async () => {
  show(makeLog(), { narrow: true });
  await frame();

  const log = screen.getByRole('log', { name: 'Log' });
  expect(log.getAttribute('aria-live')).toBe('off');
  expect(log.tabIndex).toBe(0);
  expect(button('Wrap').getAttribute('aria-pressed')).toBe('false');
  fireEvent.click(button('Wrap'));
  expect(button('Wrap').getAttribute('aria-pressed')).toBe('true');
});
