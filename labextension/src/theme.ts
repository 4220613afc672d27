/** Whether the page is dark, by what the front ends write into it; what they do not say, the system does. */

const DARK = [
  '[data-jp-theme-light="false"]',
  '.vscode-dark',
  '.vscode-high-contrast:not(.vscode-high-contrast-light)',
  'html[theme="dark"]',
].join();
const LIGHT = [
  '[data-jp-theme-light="true"]',
  '.vscode-light',
  '.vscode-high-contrast-light',
  'html[theme="light"]',
].join();
/** A theme's rules come a moment after the page says its name. */
const SETTLED = 400;

export type Theme = 'light' | 'dark';

export function themeOf(page: Document): Theme {
  if (page.querySelector(DARK)) {
    return 'dark';
  }
  if (page.querySelector(LIGHT)) {
    return 'light';
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** Calls `changed` when the page may look different from now on; returns what ends that. */
export function watchTheme(page: Document, changed: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    changed();
    clearTimeout(timer);
    timer = setTimeout(changed, SETTLED);
  };
  const attributes = new MutationObserver(look);
  for (const node of [page.documentElement, page.body]) {
    attributes.observe(node, {
      attributeFilter: ['class', 'theme', 'data-jp-theme-light', 'data-jp-theme-name'],
    });
  }
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', look);
  return () => {
    clearTimeout(timer);
    attributes.disconnect();
    system.removeEventListener('change', look);
  };
}
