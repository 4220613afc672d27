import { jest } from '@jest/globals';

import type { Notice } from '../src/views/Notes';
import { openBoard } from '../src/views/Notes';

const ADDRESS = 'http://127.0.0.1:8888/nbdist/visualdl/';

function aTab() {
  const document = new DOMParser().parseFromString('<p></p>', 'text/html');
  return {
    document,
    opener: window as unknown,
    closed: false,
    close: jest.fn(),
    location: { replace: jest.fn() },
  };
}

/** Return the last notice after an answer with this `url` and `problem`, where the browser gives this tab. */
async function last(answer: { url?: string; problem?: string } | null, tab: ReturnType<typeof aTab> | null) {
  const notices: Notice[] = [];
  jest.spyOn(window, 'open').mockReturnValue(tab as unknown as Window | null);
  const whole = answer && { kind: 'board' as const, url: '', problem: '', ...answer };
  const done = openBoard(Promise.resolve(whole), 'mnist-7', notice => notices.push(notice));
  expect(window.open).toHaveBeenCalledTimes(1);
  await done;
  return notices.at(-1);
}

afterEach(() => jest.restoreAllMocks());

test('the tab is opened at the click, and goes to the address that comes later', async () => {
  const tab = aTab();

  expect(await last({ url: ADDRESS }, tab)).toMatchObject({ brief: true });

  expect(tab.location.replace).toHaveBeenCalledWith(ADDRESS);
  expect(tab.opener).toBeNull();
});

test('where the browser opens no tab, there is a link', async () => {
  expect(await last({ url: ADDRESS }, null)).toMatchObject({ link: ADDRESS });
});

test.each([
  [{ problem: 'no visualdl' }, 'no visualdl'],
  [{ url: 'javascript:alert(1)' }, 'javascript'],
  [null, '%dist_board mnist-7'],
])('a tab without an address is closed, and the panel says why: %j', async (answer, text) => {
  const tab = aTab();

  expect((await last(answer, tab))?.text).toContain(text);

  expect(tab.close).toHaveBeenCalled();
  expect(tab.location.replace).not.toHaveBeenCalled();
});
