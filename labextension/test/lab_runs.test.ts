import { type RunEvent, Runs } from '../src/lab/services/runs';
import { fakeService, row, running, settled } from './lab_fakes';

function service() {
  const parts = fakeService();
  return { ...parts, runs: new Runs(parts.client, parts.stream, parts.clock) };
}

function page(rows: readonly object[], next: string | null = null): { body: object } {
  return { body: { runs: rows, next } };
}

function labels(runs: Runs): string[] {
  return runs.rows.map(each => each.label);
}

test('what goes on comes first, then the newest', async () => {
  const { server, runs } = service();
  server.answers['GET nbdist/api/runs'] = page([
    row('old-1', { created: 10 }),
    row('new-2', { created: 30 }),
    row('live-3', { ...running, created: 5 }),
  ]);
  await runs.refresh();

  expect(labels(runs)).toEqual(['live-3', 'new-2', 'old-1']);
  expect(runs.state).toBe('ready');
});

test('the stream adds, changes and removes rows', async () => {
  const { server, runs } = service();
  server.answers['GET nbdist/api/runs'] = page([row('a-1'), row('b-2')]);
  await runs.refresh();
  server.lastSocket.onopen!();

  server.lastSocket.receive({
    kind: 'runs',
    runs: [row('c-3', running)],
    removed: ['20261120-141503-a-1'],
    live: 1,
    first: false,
  });

  expect(labels(runs)).toEqual(['c-3', 'b-2']);
});

test('what was removed while nobody was connected goes when the list comes anew', async () => {
  const { server, runs } = service();
  const old = row('a-1', { created: 1 });
  server.answers['GET nbdist/api/runs'] = page([
    old,
    row('b-2', { created: 20 }),
    row('c-3', { created: 30 }),
    row('d-4', { ...running, created: 5 }),
  ]);
  await runs.refresh();
  server.lastSocket.onopen!();

  server.lastSocket.receive({ kind: 'runs', runs: [row('b-2', { created: 20 })], live: 0, first: true });

  expect(labels(runs)).toEqual(['b-2', 'a-1']);
});

test('an end and a stall are told once, and not of runs that had ended before', async () => {
  const { server, runs } = service();
  const events: [RunEvent['kind'], string][] = [];
  runs.events.subscribe(({ kind, row: { label } }) => events.push([kind, label]));
  server.answers['GET nbdist/api/runs'] = page([row('a-1', running), row('b-2')]);
  await runs.refresh();
  server.lastSocket.onopen!();
  const news = (given: object): void =>
    server.lastSocket.receive({ kind: 'runs', runs: [row('a-1', given)], removed: [], live: 1 });

  news({ ...running, stalled: true });
  news({ ...running, stalled: true });
  news(running);
  news({ ...running, stalled: true });
  news({ state: 'failed' });
  // an answer that was under way
  news(running);
  news({ state: 'failed' });

  expect(events).toEqual([
    ['stalled', 'a-1'],
    ['resumed', 'a-1'],
    ['stalled', 'a-1'],
    ['ended', 'a-1'],
  ]);
});

test.each(['the stream', 'a look at the list'])(
  'a run that began and ended before it was first seen is told of, by %s',
  async way => {
    const { server, runs } = service();
    const ended: string[] = [];
    runs.events.subscribe(({ kind, row: { label } }) => kind === 'ended' && ended.push(label));
    const known = row('a-1', { created: 10 });
    server.answers['GET nbdist/api/runs'] = page([known]);
    await runs.refresh();
    const brief = [row('b-2', { created: 20, state: 'failed' }), known, row('z-0', { created: 5 })];

    if (way === 'the stream') {
      server.lastSocket.onopen!();
      server.lastSocket.receive({ kind: 'runs', runs: brief, removed: [], live: 0 });
    } else {
      server.answers['GET nbdist/api/runs'] = page(brief);
      await runs.refresh();
    }

    expect(ended).toEqual(['b-2']);
  },
);

test('runs that had ended before the page was opened are not told of', async () => {
  const { server, runs } = service();
  const events: RunEvent[] = [];
  runs.events.subscribe(event => events.push(event));
  server.answers['GET nbdist/api/runs'] = page([row('c-3', { created: 30 })], 'token');
  await runs.refresh();
  server.answers['GET nbdist/api/runs'] = page([row('b-2', { created: 20 }), row('a-1', { created: 40 })]);
  await runs.more();

  expect(events).toEqual([]);
});

test('a server without nbdist is not asked again by itself', async () => {
  const { server, runs, clock } = service();
  await runs.refresh();
  await clock.pass(600_000);

  expect(runs.state).toBe('absent');
  expect(server.requests).toHaveLength(1);
  expect(server.sockets).toHaveLength(0);
});

test('a server that is away leaves what is known, and brings the list when it is there again', async () => {
  const { server, runs, clock } = service();
  server.answers['GET nbdist/api/runs'] = page([row('a-1')]);
  await runs.refresh();
  server.lastSocket.onopen!();
  server.answers['GET nbdist/api/runs'] = new TypeError('Failed to fetch');
  server.lastSocket.close();
  await settled();
  expect([runs.state, labels(runs)]).toEqual(['offline', ['a-1']]);

  server.answers['GET nbdist/api/runs'] = page([row('a-1'), row('b-2', { created: 2000 })], 'token');
  await clock.pass(1000);
  server.lastSocket.onopen!();
  await settled();
  expect([runs.state, labels(runs), runs.hasMore]).toEqual(['ready', ['b-2', 'a-1'], true]);
});

test('a search shows what the server finds, and until then what was shown', async () => {
  const { server, runs, clock } = service();
  server.answers['GET nbdist/api/runs'] = page([row('lenet-1'), row('bert-2', { notebook: '' })]);
  await runs.refresh();
  server.answers['GET nbdist/api/runs'] = page([row('lenet-1'), row('lenet-0')]);

  runs.find('Lenet ');
  expect(labels(runs)).toEqual(['lenet-1', 'bert-2']);
  expect(runs.searching).toBe(true);
  await clock.pass(200);
  expect(labels(runs)).toEqual(['lenet-1', 'lenet-0']);
  expect(server.requests.at(-1)).toContain('search=Lenet');

  server.answers['GET nbdist/api/runs'] = page([row('lenet-1'), row('bert-2', { notebook: '' })]);
  runs.find('');
  await clock.pass(200);
  expect(labels(runs)).toEqual(['lenet-1', 'bert-2']);
});

test('an old pinned run says nothing of what is on the first page', async () => {
  const { server, runs } = service();
  const marked = row('a-1', { created: 1, pinned: true, tags: ['base line'], note: 'warm-up of 500' });
  server.answers['GET nbdist/api/runs'] = page([
    row('c-3', { created: 30 }),
    row('b-2', { created: 20 }),
    marked,
  ]);
  await runs.refresh();
  server.lastSocket.onopen!();
  server.lastSocket.receive({
    kind: 'runs',
    runs: [row('c-3', { created: 30 }), marked],
    live: 0,
    first: true,
  });

  expect(labels(runs)).toEqual(['a-1', 'c-3', 'b-2']);
});

test('a further page is asked for once, and stays when the first is asked for again', async () => {
  const { server, runs } = service();
  server.answers['GET nbdist/api/runs'] = page([row('c-3', { created: 3 })], 'token');
  await runs.refresh();
  server.answers['GET nbdist/api/runs'] = page([row('b-2', { created: 2 }), row('a-1', { created: 1 })]);
  await Promise.all([runs.more(), runs.more()]);
  await runs.more();
  expect(labels(runs)).toEqual(['c-3', 'b-2', 'a-1']);
  expect(server.requests.filter(each => each.includes('before=token'))).toHaveLength(1);

  server.answers['GET nbdist/api/runs'] = page([row('d-4', { created: 4 })], 'other');
  await runs.refresh();
  expect(labels(runs)).toEqual(['d-4', 'c-3', 'b-2', 'a-1']);
});

test('a home that the server refuses to read is told of in its words, not as a server that is silent', async () => {
  const { server, runs } = service();
  const message = '/home/ann/nbdist belongs to user bob, not to you: set NBDIST_HOME';
  server.answers['GET nbdist/api/runs'] = { status: 403, body: { message } };

  await runs.refresh();

  expect([runs.state, runs.refusal]).toEqual(['refused', message]);
});
