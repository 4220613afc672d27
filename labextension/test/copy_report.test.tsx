/** @jest-environment jsdom */
import { jest } from '@jest/globals';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { RunModel } from '../src/model/run_model';
import { PageServer } from '../src/page/server';
import panel from '../src/panel/widget';
import { decode, type Request, type RunView, type Update } from '../src/protocol/run';
import { Panel } from '../src/views/Panel';
import type { RunHost } from '../src/views/RunPage';
import { sample } from './samples';

const TEXT = 'nbdist report of lenet-k3f9\nFailed · 2 ranks';
const nothing = (): void => undefined;

/** Return the list of copied texts; `allowed`: true when the page may copy. */
function clipboard(allowed: boolean): string[] {
  const copied: string[] = [];
  const writeText = (text: string): Promise<void> =>
    allowed ? Promise.resolve(void copied.push(text)) : Promise.reject(new Error('not allowed'));
  Object.assign(navigator, { clipboard: { writeText } });
  document.execCommand = () => false;
  return copied;
}

function shown(name: string, report: RunHost['report'], over: Partial<RunView> = {}): void {
  const model = new RunModel({ now: () => 10, frame: draw => draw() });
  const { content, buffers } = sample(name);
  const update = decode(content, buffers) as Update;
  model.receive({ ...update, view: { ...update.view!, ...over } });
  const host: RunHost = {
    stop: () => Promise.resolve(null),
    board: null,
    again: nothing,
    interrupt: nothing,
    report,
  };
  render(createElement(Panel, { run: model, host }));
}

const settled = (): Promise<void> => act(() => new Promise<void>(done => setTimeout(done, 20)));

async function press(name = 'Copy report'): Promise<void> {
  fireEvent.click(screen.getByRole('button', { name }));
  await settled();
}

afterEach(() => {
  cleanup();
  document.documentElement.lang = 'en';
  document.body.innerHTML = '';
});

test('the report is copied, which its button says for two seconds', async () => {
  const copied = clipboard(true);
  shown('failure', () => Promise.resolve(TEXT));

  await press();

  expect(copied).toEqual([TEXT]);
  expect(screen.getByRole('button', { name: 'Copied' })).toBeTruthy();
  expect(await screen.findByRole('button', { name: 'Copy report' }, { timeout: 4000 })).toBeTruthy();
});

test('where the page may not copy, the panel says what gives a report', async () => {
  clipboard(false);
  shown('failure', () => Promise.resolve(TEXT));

  await press();

  expect(screen.getByText(/Run %dist_explain --copy/)).toBeTruthy();
});

test('where no report can be had, the panel says what gives one', async () => {
  shown('failure', () => Promise.resolve(null));

  await press();

  expect(screen.getByText(/%dist_explain --copy lenet-k3f9/)).toBeTruthy();
});

test.each([
  ['a failed run', 'failure', {}],
  ['a run that hangs', 'stalled', {}],
  ['a run that ended while it hung', 'stalled', { live: false, state: 'failed' as const }],
  [
    'a run that failed before its ranks',
    'running',
    { live: false, state: 'failed' as const, reason: { en: 'no GPU', zh: '没有 GPU' } },
  ],
])('%s has the button, once', (_what, name, over) => {
  shown(name, () => Promise.resolve(TEXT), over);

  expect(screen.getAllByRole('button', { name: 'Copy report' })).toHaveLength(1);
});

test.each([
  ['a run that goes on', 'running', {}],
  ['a run that has finished', 'running', { live: false, state: 'finished' as const }],
])('%s has no such button', (_what, name, over) => {
  shown(name, () => Promise.resolve(TEXT), over);

  expect(screen.queryByRole('button', { name: 'Copy report' })).toBeNull();
});

test('in Chinese the button is Chinese', async () => {
  clipboard(true);
  document.documentElement.lang = 'zh-CN';
  shown('failure', () => Promise.resolve(TEXT));

  await press('复制报告');

  expect(screen.getByRole('button', { name: '已复制' })).toBeTruthy();
});

test('a page without a server asks the kernel', async () => {
  const copied = clipboard(true);
  document.body.innerHTML = '<div id="output"></div>';
  const requests: Request[] = [];
  const listeners = new Set<(content: unknown, buffers: readonly DataView[]) => void>();
  const model = {
    get: (name: string) => ({ panel_id: 'p9', foreground: false })[name],
    on: (event: string, listener: never) => event === 'msg:custom' && listeners.add(listener),
    off: (_event: string, listener: never) => listeners.delete(listener),
    send: (content: Request) => requests.push(content),
  };
  panel.initialize({ model: model as never });
  panel.render({ model: model as never, el: document.getElementById('output')! });
  const deliver = ({ content, buffers }: { content: unknown; buffers: DataView[] }): Promise<void> => {
    listeners.forEach(listener => listener(content, buffers));
    return act(() => new Promise<void>(done => setTimeout(done, 100)));
  };
  await deliver(sample('failure'));

  await press();
  expect(requests).toContainEqual({ kind: 'report', language: 'en' });
  await deliver(sample('report_answer'));

  expect(copied).toEqual([sample('report_answer').content['text']]);
});

test('a server is asked for the report in the language of the page, where it has the extension', async () => {
  const page = document.implementation.createHTMLDocument();
  page.body.innerHTML =
    '<script id="jupyter-config-data" type="application/json">{"baseUrl": "/u/"}</script>';
  const send = jest.fn((url: string) =>
    Promise.resolve({ ok: !url.includes('gone'), text: () => Promise.resolve(TEXT) } as Response),
  );

  const server = new PageServer(page, send as never);

  expect(await server.report('a/1', 'zh')).toBe(TEXT);
  expect(send.mock.calls.at(-1)![0]).toBe('/u/nbdist/api/runs/a%2F1/report?language=zh');
  expect(await server.report('gone', 'zh')).toBeNull();
});
