import { PageServer } from '../src/page/server';

interface Sent {
  url: string;
  init: RequestInit;
}

function server(ok: boolean, sent: Sent[]): typeof fetch {
  return (async (url: string, init: RequestInit) => {
    sent.push({ url, init });
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
  const sent: Sent[] = [];

  expect(await new PageServer(page(config), server(true, sent)).interruptKernel('k/1')).toBe(true);

  expect(sent.map(each => each.url)).toEqual([url]);
  expect(sent[0]!.init).toMatchObject({ method: 'POST', headers: { 'X-XSRFToken': '2|abc' } });
});

test('the address can be that of the classic page', async () => {
  const sent: Sent[] = [];

  expect(await new PageServer(page(null, '/n/'), server(true, sent)).interruptKernel('k')).toBe(true);

  expect(sent[0]!.url).toBe('/n/api/kernels/k/interrupt');
});

test('a token is sent along', async () => {
  const sent: Sent[] = [];

  await new PageServer(page('{"baseUrl": "/", "token": "secret"}'), server(true, sent)).interruptKernel('k');

  expect(sent[0]!.init.headers).toMatchObject({ Authorization: 'token secret' });
});

test.each([
  ['a page that no Jupyter server wrote', null, 'k'],
  ['a page whose configuration cannot be read', '{', 'k'],
  ['a kernel that is not known', '{"baseUrl": "/"}', ''],
])('%s cannot interrupt, and asks nobody', async (_what, config, kernel) => {
  const sent: Sent[] = [];

  expect(await new PageServer(page(config), server(true, sent)).interruptKernel(kernel)).toBe(false);
  expect(sent).toEqual([]);
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
  const sent: Sent[] = [];
  const here = new PageServer(page('{"baseUrl": "/user/ann/"}'), server(true, sent));

  expect(await here.stop('20261120-141503-lenet-k3f9')).toBe(true);
  await here.stop('20261120-141503-lenet-k3f9');

  expect(sent.map(each => `${each.init.method} ${each.url}`)).toEqual([
    'GET /user/ann/nbdist/api/status',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
    'POST /user/ann/nbdist/api/runs/20261120-141503-lenet-k3f9/stop',
  ]);
  expect(sent[1]!.init).toMatchObject({ headers: { 'X-XSRFToken': '2|abc' } });
});

test('a server without the extension is asked to stop nothing', async () => {
  const sent: Sent[] = [];

  const here = new PageServer(page('{"baseUrl": "/"}'), server(false, sent));
  expect(await here.stop('run')).toBe(false);
  await here.stop('run');

  expect(sent.map(each => each.url)).toEqual(['/nbdist/api/status']);
});

test('a page that no Jupyter server wrote asks nobody to stop', async () => {
  const sent: Sent[] = [];

  expect(await new PageServer(page(null), server(true, sent)).stop('run')).toBe(false);

  expect(sent).toEqual([]);
});
