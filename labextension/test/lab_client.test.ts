import { NoExtension, Offline, Refusal } from '../src/lab/services/client';
import { fakeService, row, running } from './lab_fakes';

test('a page of runs is asked for with what was given alone, and decoded', async () => {
  const { server, client } = fakeService();
  server.answers['GET nbdist/api/runs'] = {
    body: {
      runs: [row('lenet-k3f9', { ...running, progress: { fraction: 0.5, remaining: 3, text: 'epoch 1/2' } })],
      next: null,
    },
  };

  const page = await client.runs({ limit: 50, search: 'le net', before: null });

  expect(server.requests).toEqual(['GET nbdist/api/runs?limit=50&search=le+net']);
  expect(page.runs[0]).toMatchObject({ label: 'lenet-k3f9', worldSize: 2, cellId: 'a1', live: true });
  expect(page.runs[0]!.progress).toEqual({ fraction: 0.5, remaining: 3, text: 'epoch 1/2' });
});

test('a server without nbdist is told from a run that is not there', async () => {
  const { server, client } = fakeService();

  await expect(client.runs()).rejects.toBeInstanceOf(NoExtension);
  server.answers['GET nbdist/api/runs/gone'] = { status: 404, body: { message: 'no run gone' } };
  await expect(client.run('gone')).rejects.toMatchObject({ status: 404, message: 'no run gone' });
});

test('what the server refuses says why, and a server that is away is no refusal', async () => {
  const { server, client } = fakeService();
  server.answers['DELETE nbdist/api/runs/x'] = { status: 409, body: { message: 'it runs: stop it first' } };
  server.answers['GET nbdist/api/devices'] = new TypeError('Failed to fetch');
  server.answers['GET nbdist/api/options'] = { status: 502, body: 'Bad Gateway' };

  await expect(client.remove('x')).rejects.toEqual(new Refusal(409, 'it runs: stop it first'));
  await expect(client.devices()).rejects.toBeInstanceOf(Offline);
  await expect(client.options()).rejects.toBeInstanceOf(Offline);
});

test('stop says why, and a board names its runs', async () => {
  const { server, client } = fakeService();
  server.answers['POST nbdist/api/runs/a/stop'] = { status: 202, body: { run_id: 'a', state: 'stopping' } };
  server.answers['POST nbdist/api/board'] = { body: { url: '/user/ada/nbdist/visualdl/a/scalar' } };

  await client.stop('a', 'dashboard');
  const url = await client.board(['a', 'b']);

  expect(server.bodies).toEqual([{ reason: 'dashboard' }, { run_ids: ['a', 'b'] }]);
  expect(url).toBe('/user/ada/nbdist/visualdl/a/scalar');
});

test('a report is the text that the server has, in the language of the page', async () => {
  const { server, client } = fakeService();
  server.answers['GET nbdist/api/runs/a/report'] = { body: 'nbdist report of lenet' };

  expect(await client.report('a', 'zh')).toContain('nbdist report of lenet');
  expect(server.requests).toEqual(['GET nbdist/api/runs/a/report?language=zh']);
  await expect(client.report('gone', 'zh')).rejects.toBeInstanceOf(Refusal);
});

test('devices and options are read as they are written', async () => {
  const { server, client } = fakeService();
  server.answers['GET nbdist/api/devices'] = {
    body: {
      gpus: [
        {
          index: 1,
          name: 'H200',
          memory: 5,
          memory_total: 10,
          utilisation: 40,
          temperature: 50,
          holders: [{ pid: 7, memory: 5, name: 'python', run_id: null }],
        },
      ],
      machine: { cores: 16, cpu: 3, memory: 1, memory_total: 2 },
    },
  };
  server.answers['GET nbdist/api/options'] = {
    body: {
      options: [
        {
          flags: ['-n', '--nproc'],
          metavar: 'N',
          help: { en: 'N ranks', zh: 'N 个' },
          choices: [],
          many: false,
        },
      ],
    },
  };

  const { gpus } = await client.devices();
  const [option] = await client.options();

  expect(gpus[0]).toMatchObject({ index: 1, memoryTotal: 10, holders: [{ pid: 7, runId: null }] });
  expect(option).toMatchObject({ flags: ['-n', '--nproc'], help: { en: 'N ranks', zh: 'N 个' } });
});

test('a socket is asked for under the prefix, with the token where the page has one', () => {
  const { server, client } = fakeService();
  client.socket();
  server.token = 'a b';
  client.socket();

  expect(server.addresses).toEqual([
    'ws://host/user/ada/nbdist/api/stream',
    'ws://host/user/ada/nbdist/api/stream?token=a%20b',
  ]);
});
