import { keyOf } from '../src/model/charts';
import { decode, type Update } from '../src/protocol/run';
import { NAMES, sample } from './samples';

test.each(NAMES.filter(name => !/^board|^report/.test(name)))('%s is read as it was meant', name => {
  const { content, buffers, expect: meant } = sample(name);

  const update = decode(content, buffers) as Update;

  expect(update.kind).toBe('update');
  expect(update.view?.state ?? null).toBe(meant.state);
  expect(update.view?.ranks.length).toBe(meant.ranks);
  expect(update.completeUntil).toBe(meant.completeUntil);
  expect(Object.fromEntries(update.deltas.map(({ rank, lines }) => [rank, lines]))).toEqual(meant.lines);
  const charts = update.charts.map(chart => ({
    key: keyOf(chart),
    columns: chart.columns.map(column => [...column].map(value => (Number.isNaN(value) ? null : value))),
  }));
  expect(charts).toEqual(meant.charts);
});

test('what is only in some messages is read too', () => {
  const read = (name: string): Update => decode(sample(name).content, sample(name).buffers) as Update;

  expect(read('first_update').cell?.split('\n')).toHaveLength(sample('first_update').expect.cellLines!);
  expect(read('failure').view?.failure).toMatchObject(sample('failure').expect.failure!);
  expect(read('backlog').deltas[0]?.skipped).toBe(sample('backlog').expect.skipped!['0']);
  expect(read('running').deltas[0]?.partial).toBe(sample('running').expect.partial!['0']);
  expect(read('ranks64').view?.ranks[63]).toMatchObject({
    node: 7,
    device: 'gpu 7',
    gpuMemoryTotal: 80e9,
    cpu: null,
  });
});

test('lines have the addresses that they say, or follow from their bytes', () => {
  const content = (head: object) => ({
    kind: 'update',
    deltas: [{ rank: 0, first: 100, count: 2, times: [[2, 1]], ...head }],
    charts: [],
    media: [],
  });
  const buffers = [new DataView(new TextEncoder().encode('é\nb').buffer)];
  const read = (head: object) => (decode(content(head), buffers) as Update | null)?.deltas[0];

  expect([read({})?.edges, read({})?.end]).toEqual([[100, 103, 105], 105]);
  const drawn = read({ edges: [100, 150, 152] });
  expect([drawn?.edges, drawn?.end]).toEqual([[100, 150, 152], 152]);
  expect(read({ edges: [100, 150] })).toBeUndefined();
});

test.each(['board_answer', 'board_problem', 'report_answer'])('%s is read as it was said', name => {
  const { content, expect: meant } = sample(name);

  expect(decode(content)).toEqual(meant);
});

test.each<[string, unknown, DataView[]]>([
  ['nothing', null, []],
  ['a text', 'update', []],
  ['a list', [], []],
  ['a message of another kind', { kind: 'news' }, []],
  ['an update without logs', { kind: 'update' }, []],
  ['a log without its buffer', { ...sample('running').content }, []],
  ['fewer lines than are said', { ...sample('running').content }, sample('running').buffers.reverse()],
  [
    'a chart with too few bytes',
    { ...sample('ranks_chart').content },
    [new DataView(new ArrayBuffer(sample('ranks_chart').buffers[0]!.byteLength - 4))],
  ],
  [
    'a state that is not known',
    {
      ...sample('first_update').content,
      view: { ...(sample('first_update').content['view'] as object), state: 'odd' },
    },
    [],
  ],
  [
    'a rank that is not a number',
    {
      kind: 'update',
      deltas: [{ rank: '0', first: 0, count: 0, times: [], partial: '', skipped: 0 }],
      charts: [],
      media: [],
    },
    [new DataView(new ArrayBuffer(0))],
  ],
])('%s is ignored', (_what, content, buffers) => {
  expect(decode(content, buffers)).toBeNull();
});

test('what a later version adds does not matter', () => {
  const { content, buffers } = sample('running');

  expect(decode({ ...content, weather: 'fine' }, buffers)).not.toBeNull();
});
