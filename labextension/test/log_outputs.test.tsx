import { afterEach, expect, jest, test } from '@jest/globals';
import { act, cleanup, fireEvent, render } from '@testing-library/preact';

import { HIGH } from '../src/log/block';
import { RowHeights } from '../src/log_view/layout';
import { heightInLines, outputOf, Outputs } from '../src/log/outputs';
import { outputNode } from '../src/log_view/outputs';
import { RunLog } from '../src/log/run_log';
import { decode } from '../src/protocol/run';
import { LogPane } from '../src/views/LogPane';
import { delta, FakeTurns, numbered } from './log_fakes';

const PNG = `${'0'.repeat(31)}a.png`;
const HTML = `${'0'.repeat(31)}b.html`;

URL.createObjectURL = () => 'blob:made';
afterEach(cleanup);

function shows(name: string, width = 640, height = 100, text = '<Figure>'): string {
  return `\x1b]nbdist;${name};${width};${height}\x07${text}`;
}

async function shown(...deltas: ReturnType<typeof delta>[]): Promise<RunLog> {
  const log = new RunLog({ turns: new FakeTurns() });
  log.outputs.ask = jest.fn();
  log.receive(deltas, null);
  render(
    <LogPane log={log} worldSize={2} selected={null} label="lenet" narrow={false} onCellLine={() => {}} />,
  );
  await act(() => new Promise<void>(done => requestAnimationFrame(() => done())));
  return log;
}

test.each([
  ['a picture', shows(PNG), { name: PNG, ending: 'png', width: 640, height: 100 }],
  ['HTML behind a bar', `50 %${shows(HTML, 0, 0)}`, { name: HTML, ending: 'html', width: 0, height: 0 }],
  ['text', 'epoch 3', null],
  ['another sequence', '\x1b]0;title\x07text', null],
  ['a name that is a path', shows('../../spec.json'), null],
  ['another kind of file', shows(`${'0'.repeat(32)}.exe`), null],
])('%s', (_, line, expected) => {
  expect(outputOf(line)).toEqual(expected);
});

test.each([
  ['a picture', shows(PNG, 640, 100), 6],
  ['a high one', shows(PNG, 640, 4000), 16],
  ['a digit', shows(PNG, 28, 28), 4],
  ['HTML, which scrolls by itself', shows(HTML, 0, 0), 9],
  ['a table of three rows', shows(HTML, 0, 72), 5],
  ['a long table', shows(HTML, 0, 9000), 16],
])('the height of %s is known before it comes', (_, line, expected) => {
  expect(heightInLines(outputOf(line)!)).toBe(expected);
});

test('rows of outputs are higher than others, wrapped or not', () => {
  const log = new RunLog({ turns: new FakeTurns() });
  const heights = new RowHeights();
  const rows = log.rank(0);
  rows.subscribe((at, removed, added) => heights.change(rows, at, removed, added));
  log.receive([delta(0, 0, ['before', 'x'.repeat(250)])], null);
  heights.set(rows, 0);
  expect(heights.total).toBe(2);

  log.receive([delta(0, 2, [shows(PNG), 'after'])], null);
  const unwrapped = [0, 1, 2, 3].map(row => heights.height(row));
  heights.set(rows, 100);
  const wrapped = [0, 1, 2, 3].map(row => heights.height(row));

  expect(unwrapped).toEqual([1, 1, 6, 1]);
  expect(wrapped).toEqual([1, 3, 6, 1]);
  expect(heights.rowAt(heights.above(3))).toBe(3);
  heights.set(rows, 0);
  expect([heights.total, heights.rowAt(7)]).toEqual([9, 2]);
});

test('an output that ranks share is one row, as high as that of one', () => {
  const log = new RunLog({ turns: new FakeTurns() });
  log.receive(
    [0, 1].map(rank => delta(rank, 0, [shows(PNG)], { times: [[1, 1]] })),
    null,
  );
  const columns = new Uint16Array(1);
  log.all.columns(0, 1, columns);

  expect([log.all.count, columns[0]]).toEqual([1, HIGH + 6]);
});

test('a picture is asked for once, of the rank that shows it, and drawn when it comes', async () => {
  const log = await shown(delta(1, 0, [shows(PNG), 'after', shows(PNG)]));
  const pictures = [...document.querySelectorAll<HTMLImageElement>('img.nbdist-output')];

  expect(log.outputs.ask).toHaveBeenCalledTimes(1);
  expect(log.outputs.ask).toHaveBeenCalledWith(1, PNG);
  expect(pictures.map(({ src, alt }) => [src, alt])).toEqual([
    ['', '<Figure>'],
    ['', '<Figure>'],
  ]);
  log.outputs.put(PNG, new Uint8Array([1]));
  expect(pictures.map(({ src }) => src)).toEqual(['blob:made', 'blob:made']);
});

test('HTML is in a sandbox without any right, and may load nothing', async () => {
  const log = await shown(delta(0, 0, [shows(HTML, 0, 0)]));
  log.outputs.put(HTML, new TextEncoder().encode('<script>parent.hacked = true</script>'));
  const frame = document.querySelector<HTMLIFrameElement>('iframe.nbdist-output')!;

  expect(frame.getAttribute('sandbox')).toBe('');
  expect(frame.srcdoc).toMatch(/^<meta http-equiv="Content-Security-Policy" content="default-src 'none';/);
  // a link is to a new tab, which the sandbox forbids: its address does not open in the frame
  expect(frame.srcdoc).toContain('<base target="_blank">');
  expect(frame.srcdoc).toContain('<script>');
});

test('a drawing with scripts is an address without the rights of the page', async () => {
  const svg = `${'0'.repeat(31)}c.svg`;
  const log = await shown(delta(0, 0, [shows(svg)]));

  log.outputs.put(svg, new TextEncoder().encode('<svg/>'));

  const { src } = document.querySelector<HTMLImageElement>('img.nbdist-output')!;
  expect(src).toBe('data:image/svg+xml;charset=utf-8,%3Csvg%2F%3E');
});

test('of a thousand figures those in view are in the document and asked for', async () => {
  const names = Array.from({ length: 1000 }, (_, at) => `${String(at).padStart(32, '0')}.png`);

  const log = await shown(
    delta(
      0,
      0,
      names.map(name => shows(name)),
    ),
  );

  const drawn = document.querySelectorAll('img.nbdist-output').length;
  expect(drawn).toBeGreaterThan(2);
  // three in view, and lines as high as one above them
  expect(drawn).toBeLessThan(6);
  expect(log.outputs.ask).toHaveBeenCalledTimes(drawn);
});

test('a picture is shown as large as it is when it is clicked', async () => {
  const log = await shown(delta(0, 0, [shows(PNG, 640, 4000), ...numbered(2)]));
  log.outputs.put(PNG, new Uint8Array([1]));

  fireEvent.click(document.querySelector('.nbdist-rows img')!);
  await act(() => new Promise<void>(done => requestAnimationFrame(() => done())));

  expect(document.querySelector<HTMLImageElement>('.nbdist-whole img')!.src).toBe('blob:made');
});

test('the oldest outputs go when there are too many bytes of them, and are asked for again', () => {
  const outputs = new Outputs();
  outputs.ask = jest.fn();
  const other = `${'0'.repeat(31)}d.png`;
  outputs.put(PNG, new Uint8Array(100 << 20));
  outputs.put(other, new Uint8Array(100 << 20));

  outputNode(outputs, outputOf(shows(other))!, 0, '');
  expect(outputs.ask).not.toHaveBeenCalled();
  outputNode(outputs, outputOf(shows(PNG))!, 0, '');
  expect(outputs.ask).toHaveBeenCalledWith(0, PNG);
});

test('files come behind the lines and charts of a message', () => {
  const content = { kind: 'update', deltas: [], charts: [], media: [PNG] };

  expect(decode(content, [new Uint8Array([7])])).toMatchObject({
    media: [{ name: PNG, data: new Uint8Array([7]) }],
  });
  expect(decode(content, [])).toBeNull();
});
