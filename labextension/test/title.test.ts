/** @jest-environment jsdom */
import { expect, test } from '@jest/globals';

import './page';
import type { RunRow } from '../src/lab/services/client';
import { titleOf } from '../src/lab/views/title';

const row = (label: string, fraction: number | null, live = true): RunRow =>
  ({
    label,
    live,
    progress: fraction === null ? null : { fraction, remaining: null, text: '' },
  }) as unknown as RunRow;

test('the title of the page says how far the newest live run is, and is as before when none is', () => {
  const rows = [row('idle-a1b2', null), row('lenet-k3f9', 0.638), row('old-z9z9', 0.9, false)];

  const first = titleOf('train.ipynb - JupyterLab', rows);
  const next = titleOf(first, [row('lenet-k3f9', 0.64)]);

  expect(first).toBe('63 % · lenet-k3f9 · train.ipynb - JupyterLab');
  expect(next).toBe('64 % · lenet-k3f9 · train.ipynb - JupyterLab');
  expect(titleOf(next, [])).toBe('train.ipynb - JupyterLab');
});
