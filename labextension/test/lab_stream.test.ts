import { Follower, OlderLines } from '../src/lab/services/follower';
import { readFrame } from '../src/protocol/run';
import { fakeService, frame, row, running } from './lab_fakes';

const RUN = '20261120-141503-lenet-k3f9';

function update(first: number, lines: readonly string[], more: object = {}): [object, Uint8Array[]] {
  const delta = { rank: 0, first, count: lines.length, times: [[lines.length, 1]], partial: '', skipped: 0 };
  const header = {
    kind: 'update',
    run_id: RUN,
    view: null,
    deltas: [delta],
    complete_until: null,
    charts: [],
    media: [],
    cell: null,
    ...more,
  };
  return [header, [new TextEncoder().encode(lines.join('\n'))]];
}

test('a frame is cut into its header and its buffers, and half a frame is none', () => {
  const whole = frame({ kind: 'x' }, [Uint8Array.of(1, 2), Uint8Array.of(3)]);

  const { header, buffers } = readFrame(whole);

  expect(header).toMatchObject({ kind: 'x' });
  expect(buffers.map(each => [...each])).toEqual([[1, 2], [3]]);
  expect(() => readFrame(whole.slice(0, whole.byteLength - 1))).toThrow();
  expect(() => readFrame(new ArrayBuffer(2))).toThrow();
});

test('a watched run is followed from its end, each update is acknowledged, a pulled one is not', () => {
  const { server, stream, make } = fakeService();
  const model = stream.watch(RUN, make);
  const socket = server.lastSocket;
  socket.onopen!();
  expect(socket.sent).toEqual([{ kind: 'runs' }, { kind: 'watch', run_id: RUN, from: 'tail' }]);

  socket.receive(...update(8, ['e', 'f']));
  expect(model.log.rank(0).next).toBe(12);
  expect(model.log.rank(0).missing).toBe(8);
  expect(socket.sent.slice(2)).toEqual([{ kind: 'ack', run_id: RUN }]);

  socket.receive(...update(0, ['a', 'b', 'c', 'd'], { pulled: true }));
  expect(model.log.rank(0).missing).toBe(0);
  expect(model.log.rank(0).row(0).text).toBe('a');
  expect(socket.sent).toHaveLength(3);
});

test('after a break the run goes on from the line that the page has', async () => {
  const { server, stream, clock, make } = fakeService();
  stream.watch(RUN, make);
  server.lastSocket.onopen!();
  server.lastSocket.receive(...update(0, ['a', 'b', 'c']));

  server.lastSocket.close();
  expect(stream.open).toBe(false);
  await clock.pass(999);
  expect(server.sockets).toHaveLength(1);
  await clock.pass(1);
  expect(server.sockets).toHaveLength(2);
  server.lastSocket.onopen!();

  expect(server.lastSocket.sent).toContainEqual({ kind: 'watch', run_id: RUN, from: { '0': 6 } });
});

test('a server that stays away is tried seldomer and seldomer', async () => {
  const { server, stream, clock } = fakeService();
  stream.start();
  const tries: number[] = [];
  for (let turn = 0; turn < 7; turn++) {
    const before = clock.now;
    server.lastSocket.close();
    const known = server.sockets.length;
    while (server.sockets.length === known) {
      await clock.pass(500);
    }
    tries.push(clock.now - before);
  }
  expect(tries).toEqual([1000, 2000, 4000, 8000, 16000, 30000, 30000]);
});

test('two views of a run cost one watch, and the last to leave ends it', () => {
  const { server, stream, make } = fakeService();
  const watched = stream.watch(RUN, make);
  server.lastSocket.onopen!();
  const other = stream.watch(RUN, make);
  stream.unwatch(RUN);
  expect(watched).toBe(other);
  expect(server.lastSocket.kinds).toEqual(['runs', 'watch']);
  stream.unwatch(RUN);
  expect(server.lastSocket.kinds).toEqual(['runs', 'watch', 'unwatch']);
  expect(stream.watch(RUN, make)).not.toBe(watched);
});

test('a view that is hidden keeps its model until it is closed, and a closed one leaves none', () => {
  const { server, client, stream } = fakeService();
  const first = new Follower({ client, stream }, RUN);
  const second = new Follower({ client, stream }, RUN);
  server.lastSocket.onopen!();
  first.setVisible(false);
  second.setVisible(false);

  second.end();
  first.setVisible(true);
  server.lastSocket.receive(...update(0, ['a']));
  expect(first.model.log.rank(0).next).toBe(2);
  first.setVisible(false);
  first.end();

  expect(new Follower({ client, stream }, RUN).model).not.toBe(first.model);
  expect(server.lastSocket.kinds).toEqual(['runs', 'watch', 'unwatch', 'watch', 'ack', 'unwatch', 'watch']);
});

test('after a message that cannot be read the run is said not to come', () => {
  const { server, stream, make } = fakeService();
  stream.watch(RUN, make);
  const socket = server.lastSocket;
  socket.onopen!();
  socket.receive(...update(0, ['a']));
  expect(stream.problemOf(RUN)).toBeNull();

  socket.receive({ kind: 'update', run_id: RUN, deltas: 'none' });

  expect(stream.problemOf(RUN)).toMatch(/could not be read, load the page again/);
});

test('a page that nobody sees says so, on a new socket too', () => {
  const { server, stream } = fakeService();
  stream.start();
  server.lastSocket.onopen!();
  stream.sleep(true);
  stream.sleep(true);
  stream.sleep(false);
  expect(server.lastSocket.kinds).toEqual(['runs', 'pause', 'resume']);
});

test('rows are handed on, nonsense is not, and a run that has gone says why', () => {
  const { server, stream, make } = fakeService();
  const updates: unknown[] = [];
  stream.onRuns(news => updates.push(news.runs.map(each => each.label)));
  stream.watch(RUN, make);
  const socket = server.lastSocket;
  socket.onopen!();

  socket.receive({ kind: 'runs', runs: [row('a-1', running)], removed: [], live: 1, first: true });
  socket.receive({ kind: 'runs', runs: [{ label: 'half a row' }], removed: [], live: 1 });
  socket.onmessage!({ data: 'text' });
  socket.receive({ kind: 'gone', run_id: RUN, problem: 'it was removed' });

  expect(updates).toEqual([['a-1']]);
  expect(stream.problemOf(RUN)).toBe('it was removed');
});

test('of a short log all older lines are asked for, of a long one what the reader comes to', async () => {
  const { server, stream, make } = fakeService();
  const model = stream.watch(RUN, make);
  const socket = server.lastSocket;
  socket.onopen!();
  const portion = 256 * 1024;
  const pulls: [number, number][] = [];
  const older = new OlderLines(model, gaps => gaps.every(([, after, before]) => pulls.push([after, before])));

  socket.receive(...update(9_000_000, ['the end']));
  older.advance();
  older.advance();
  expect(pulls).toEqual([[0, 9_000_000]]);

  for (let turn = 0; turn < 8; turn++) {
    const before = pulls.at(-1)![1];
    socket.receive(...update(before - portion, [`${turn}`.repeat(portion - 1)], { pulled: true }));
    older.advance();
  }
  expect(pulls).toHaveLength(4);

  // a fast machine has put in its place what came, a slow one not yet: then nothing more is asked for
  while (model.log.placing) {
    older.wanted(null);
    expect(pulls).toHaveLength(4);
    await new Promise<void>(placed => setTimeout(placed));
  }
  older.wanted(null);
  older.wanted(null);
  expect(pulls).toHaveLength(5);
  expect(pulls.at(-1)).toEqual([0, 9_000_000 - 4 * portion]);
});
