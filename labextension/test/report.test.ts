/** @jest-environment jsdom */
import { screen, waitFor } from '@testing-library/preact';
import { gzipSync } from 'fflate';

import './page';
import { drawReport } from '../src/panel/report';
import { frame } from './lab_fakes';
import { sample } from './samples';

/** A message as a report holds it. */
function packed(name: string): string {
  const { content, buffers } = sample(name);
  const parts = buffers.map(each => new Uint8Array(each.buffer, each.byteOffset, each.byteLength));
  const bytes = gzipSync(new Uint8Array(frame(content, parts)));
  return `<script type="text/plain">${btoa(String.fromCharCode(...bytes))}</script>`;
}

test('a report draws each run in the place of its summary, and the curves of several', async () => {
  const run = `<div data-nbdist-run><p>summary</p>${packed('first_update')}${packed('failure')}</div>`;
  document.body.innerHTML = `<div data-nbdist-overlay></div>${run}${run}`;

  drawReport();

  await waitFor(() => expect(document.querySelectorAll('.nbdist-pill[data-state=failed]')).toHaveLength(2));
  expect(screen.getAllByRole('region', { name: 'Distributed run lenet-k3f9' })).toHaveLength(2);
  expect(screen.getAllByText('summary').map(each => each.hidden)).toEqual([true, true]);
  expect(screen.queryByRole('button', { name: /VisualDL/ })).toBeNull();
  expect(document.querySelectorAll('.nbdist-charts')).toHaveLength(1);
});
