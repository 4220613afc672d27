/** What can wait until the page has come up and has nothing better to do. */

/** milliseconds after which it is done all the same */
const LATEST = 3000;

interface Page {
  readonly restored: Promise<unknown>;
}

export async function whenIdle(page: Page): Promise<void> {
  await page.restored;
  await new Promise<void>(idle => {
    if (typeof requestIdleCallback === 'function') {
      requestIdleCallback(() => idle(), { timeout: LATEST });
    } else {
      setTimeout(idle, LATEST / 2);
    }
  });
}
