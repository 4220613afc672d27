// What a run left in a notebook takes its colours from the theme as JupyterLab names it.
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

function nameTheme() {
  const chosen = document.body.dataset.theme;
  const dark = chosen === 'dark' || (chosen !== 'light' && prefersDark.matches);
  document.documentElement.dataset.jpThemeLight = String(!dark);
}

new MutationObserver(nameTheme).observe(document.body, { attributeFilter: ['data-theme'] });
prefersDark.addEventListener('change', nameTheme);
nameTheme();
