import { PageServer } from '../src/page';

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

  expect(await new PageServer(page(config), server(true, asked)).interruptKernel('k/1')).toBe(true);

  expect(asked.map(each => each.url)).toEqual([url]);
  expect(asked[0]!.init).toMatchObject({ method: 'POST', headers: { 'X-XSRFToken': '2|abc' } });
});

test('the address can be that of the classic page', async () => {
  const asked: Asked[] = [];

  expect(await new PageServer(page(null, '/n/'), server(true, asked)).interruptKernel('k')).toBe(true);

  expect(asked[0]!.url).toBe('/n/api/kernels/k/interrupt');
});

test('a token is sent along', async () => {
  const asked: Asked[] = [];

  await new PageServer(page('{"baseUrl": "/", "token": "secret"}'), server(true, asked)).interruptKernel('k');

  expect(asked[0]!.init.headers).toMatchObject({ Authorization: 'token secret' });
});

test.each([
  ['a page that no Jupyter server wrote', null, 'k'],
  ['a page whose configuration cannot be read', '{', 'k'],
  ['a kernel that is not known', '{"baseUrl": "/"}', ''],
])('%s cannot interrupt, and asks nobody', async (_what, config, kernel) => {
  const asked: Asked[] = [];

  expect(await new PageServer(page(config), server(true, asked)).interruptKernel(kernel)).toBe(false);
  expect(asked).toEqual([]);
});

test('a server that refuses is a failure', async () => {
  expect(await new PageServer(page('{"baseUrl": "/"}'), server(false, [])).interruptKernel('k')).toBe(false);
});

test('a server that cannot be reached is a failure', async () => {
  const gone = (async () => {
    throw new TypeError('offline');
  }) as unknown as typeof fetch;

  expect(await new PageServer(page('{"baseUrl": "/"}'), gone).interruptKernel('k')).toBe(false);
});

test('the extension of the server stops the run, and is looked for once', async () => {
  const asked: Asked[] = [];
  const here = new PageServer(page('{"baseUrl": "/user/ann/"}'), server(true, asked));

  expect(await here.stop('20261120-141503-lenet-k3f9')).toBe(true);
  await here.stop('20261120-141503-lenet-k3f9');

  expect(asked.map(each => `${each.init.method} ${each.url}`)).toEqual([
    'GET /user/ann/nbdist/api/status',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
  ]);
  expect(asked[1]!.init).toMatchObject({ headers: { 'X-XSRFToken': '2|abc' } });
});

test('a server without the extension is asked to stop nothing', async () => {
  const asked: Asked[] = [];

  const here = new PageServer(page('{"baseUrl": "/"}'), server(false, asked));
  expect(await here.stop('run')).toBe(false);
  await here.stop('run');

  expect(asked.map(each => each.url)).toEqual(['/nbdist/api/status']);
});

test('a page that no Jupyter server wrote asks nobody to stop', async () => {
  const asked: Asked[] = [];

  expect(await new PageServer(page(null), server(true, asked)).stop('run')).toBe(false);

  expect(asked).toEqual([]);
});
