import { interruptKernel, stopRun } from '../src/page';

interface Asked {
  url: string;
  init: RequestInit;
}

function server(ok: boolean, asked: Asked[]): typeof fetch {
  return (async (url: string, init: RequestInit) => {
    asked.push({ url, init });
    return { ok } as Response;
  }) as typeof fetch;
}

function page(config: string | null, baseUrl = ''): Document {
  const made = document.implementation.createHTMLDocument();
  if (config !== null) {
    made.body.innerHTML = `<script id="jupyter-config-data" type="application/json">${config}</script>`;
  }
  if (baseUrl) {
    made.body.dataset['baseUrl'] = baseUrl;
  }
  Object.defineProperty(made, 'cookie', { value: 'a=1; _xsrf=2%7Cabc; b=2' });
  return made;
}

test.each([
  ['a base address', '{"baseUrl": "/user/ann/"}', '/user/ann/api/kernels/k%2F1/interrupt'],
  ['a base address without a slash at its end', '{"baseUrl": "/lab"}', '/lab/api/kernels/k%2F1/interrupt'],
])('%s leads to the kernel', async (_what, config, url) => {
  const asked: Asked[] = [];

  expect(await interruptKernel('k/1', page(config), server(true, asked))).toBe(true);

  expect(asked.map(each => each.url)).toEqual([url]);
  expect(asked[0]!.init).toMatchObject({ method: 'POST', headers: { 'X-XSRFToken': '2|abc' } });
});

test('the address can be that of the classic page', async () => {
  const asked: Asked[] = [];

  expect(await interruptKernel('k', page(null, '/n/'), server(true, asked))).toBe(true);

  expect(asked[0]!.url).toBe('/n/api/kernels/k/interrupt');
});

test('a token is sent along', async () => {
  const asked: Asked[] = [];

  await interruptKernel('k', page('{"baseUrl": "/", "token": "secret"}'), server(true, asked));

  expect(asked[0]!.init.headers).toMatchObject({ Authorization: 'token secret' });
});

test.each([
  ['a page that no Jupyter server wrote', null, 'k'],
  ['a page whose configuration cannot be read', '{', 'k'],
  ['a kernel that is not known', '{"baseUrl": "/"}', ''],
])('%s cannot interrupt, and asks nobody', async (_what, config, kernel) => {
  const asked: Asked[] = [];

  expect(await interruptKernel(kernel, page(config), server(true, asked))).toBe(false);
  expect(asked).toEqual([]);
});

test('a server that refuses is a failure', async () => {
  expect(await interruptKernel('k', page('{"baseUrl": "/"}'), server(false, []))).toBe(false);
});

test('a server that cannot be reached is a failure', async () => {
  const gone = (async () => {
    throw new TypeError('offline');
  }) as unknown as typeof fetch;

  expect(await interruptKernel('k', page('{"baseUrl": "/"}'), gone)).toBe(false);
});

test('the extension of the server stops the run, and is looked for once', async () => {
  const asked: Asked[] = [];
  const here = page('{"baseUrl": "/user/ann/"}');
  const known = new Map<string, Promise<boolean>>();

  expect(await stopRun('20261120-141503-lenet-k3f9', here, server(true, asked), known)).toBe(true);
  await stopRun('20261120-141503-lenet-k3f9', here, server(true, asked), known);

  expect(asked.map(each => `${each.init.method} ${each.url}`)).toEqual([
    'GET /user/ann/nbdist/api/status',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
  ]);
  expect(asked[1]!.init).toMatchObject({ headers: { 'X-XSRFToken': '2|abc' } });
});

test('a server without the extension is asked to stop nothing', async () => {
  const asked: Asked[] = [];

  const known = new Map<string, Promise<boolean>>();
  expect(await stopRun('run', page('{"baseUrl": "/"}'), server(false, asked), known)).toBe(false);
  await stopRun('run', page('{"baseUrl": "/"}'), server(false, asked), known);

  expect(asked.map(each => each.url)).toEqual(['/nbdist/api/status']);
});

test('a page that no Jupyter server wrote asks nobody to stop', async () => {
  const asked: Asked[] = [];

  expect(await stopRun('run', page(null), server(true, asked), new Map())).toBe(false);

  expect(asked).toEqual([]);
});
