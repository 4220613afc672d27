/**
 * Bundles what the panel draws into nbdist/panel/static/. The views are written for React, so that a
 * JupyterLab extension can draw them with JupyterLab's own; the panel brings Preact, which is 30 KB less.
 */
import { build, context } from 'esbuild';

const options = {
  entryPoints: { panel: 'src/panel.tsx' },
  outdir: '../nbdist/panel/static',
  bundle: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' },
  minify: true,
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
};

if (process.argv.includes('--watch')) {
  await (await context(options)).watch();
} else {
  await build(options);
}
