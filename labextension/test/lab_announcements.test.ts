import { runRow } from '../src/lab/services/client';
import { announcements, type RunEvent } from '../src/lab/services/runs';
import { row, running } from './lab_fakes';

function listening({
  level = 'all',
  sees = false,
}: { level?: 'all' | 'problems' | 'none'; sees?: boolean } = {}): {
  shown: Set<string>;
  hear: (kind: RunEvent['kind'], given: object) => Promise<void>;
} {
  const shown = new Set<string>();
  const tell = announcements({
    level: () => Promise.resolve(level),
    sees: () => sees,
    announce: ({ kind, row: { label, state } }) => {
      const id = `${label} ${kind === 'stalled' ? kind : state}`;
      shown.add(id);
      return id;
    },
    withdraw: id => shown.delete(id),
  });
  return { shown, hear: (kind, given) => tell({ kind, row: runRow(row('a-1', given)) }) };
}

test.each([
  ['ended', { state: 'failed' }, ['a-1 failed']],
  ['ended', { state: 'finished' }, ['a-1 finished']],
  ['ended', { state: 'stopped', stopped_as_asked: true }, []],
  ['resumed', running, []],
] as const)(
  'of a run that stalls only what is true is on the screen: then it has %s, %j',
  async (kind, given, left) => {
    const { shown, hear } = listening();
    await hear('stalled', { ...running, stalled: true });
    expect([...shown]).toEqual(['a-1 stalled']);

    await hear(kind, given);

    expect([...shown]).toEqual(left);
  },
);

test.each([
  ['a failure', {}, { state: 'failed' }, true],
  ['a failure, where nothing is wanted', { level: 'none' }, { state: 'failed' }, false],
  ['a success, where problems are wanted', { level: 'problems' }, {}, false],
  ['a success after five seconds', {}, { ended: 1006 }, false],
  ['a stop that was asked for', {}, { state: 'stopped', stopped_as_asked: true }, false],
  ['a stop that was not asked for', {}, { state: 'stopped' }, true],
  ['a failure on the screen', { sees: true }, { state: 'failed' }, false],
] as const)('%s', async (_case, reader, given, announced) => {
  const { shown, hear } = listening(reader);
  await hear('ended', given);
  expect(shown.size).toBe(Number(announced));
});
