/** @jest-environment jsdom */
import { jest } from '@jest/globals';
import { fireEvent, render, screen } from '@testing-library/preact';
import { createElement } from 'react';

import './page';
import { runView, type RunView } from '../src/protocol/run';
import { Profile, type Profiler, RecordButton } from '../src/views/Profile';
import { sample } from './samples';

const RECORDED = {
  time: 1,
  seconds: 2.04,
  trace: '/runs/a/profile.trace.json.gz',
  ranks: [
    { rank: 0, parts: { compute: 0.5, communication: 0.25, overlapped: 0, idle: 0.25 }, line: '0013' },
    { rank: 1, parts: {}, line: '', problem: 'has not answered', problem_zh: '没有应答' },
  ],
};

function view(profile: object | null): RunView {
  const { content } = sample('running');
  const training = { text: 'a', limit: 'b', on_host: true, parts: {} };
  const { view } = content as unknown as { view: object };
  return runView({ ...view, training, profile });
}

function drawn(profile: object | null, profiler?: Profiler) {
  const notify = jest.fn();
  const draw = (of: object | null) =>
    createElement(
      'div',
      null,
      createElement(Profile, { view: view(of), profiler }),
      profiler && createElement(RecordButton, { view: view(of), profiler, notify }),
    );
  const { rerender } = render(draw(profile));
  return { notify, draw: (of: object | null) => rerender(draw(of)) };
}

test('each rank has its shares, or the reason why it has none', () => {
  drawn(RECORDED, { record: async () => true, trace: () => '/trace' });

  const lines = [...document.querySelectorAll<HTMLElement>('.nbdist-profile-line')];
  expect(lines[0]!.title).toBe(
    'compute 50 %, communication 25 %, both at once 0 %, neither (idle, Python, data) 25 %',
  );
  expect(lines[1]!.textContent).toBe('has not answered');
  expect(screen.getByText('Trace').closest('a')!.getAttribute('href')).toBe('/trace');
});

test('the button waits for the next profile', async () => {
  const record = jest.fn(async () => true);
  const { draw } = drawn(null, { record, trace: () => '' });

  fireEvent.click(screen.getByText('Profile 2 s'));
  expect(await screen.findByText('Recording…')).toBeTruthy();
  draw(RECORDED);

  expect(screen.getByText('Profile 2 s')).toBeTruthy();
  expect(record).toHaveBeenCalledTimes(1);
});

test('what a server refuses is said, with what to type', async () => {
  const { notify } = drawn(null, { record: async () => false, trace: () => '' });

  fireEvent.click(screen.getByText('Profile 2 s'));
  await screen.findByText('Profile 2 s');

  expect(notify).toHaveBeenCalledWith({ text: expect.stringContaining('%dist_profile lenet-k3f9') });
});
