/**
 * Bundles what the panel draws into nbdist/panel/static/. The views are written for React, so that a
 * JupyterLab extension can draw them with JupyterLab's own; the panel brings Preact, which is 30 KB less.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';

import { build, context } from 'esbuild';

const options = {
  entryPoints: { panel: 'src/panel/widget.tsx' },
  outdir: '../nbdist/panel/static',
  bundle: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' },
  minify: !process.argv.includes('--plain'),
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
};

/** The licences of what is bundled ask to come along. */
async function writeLicences({ metafile }) {
  const inputs = Object.keys(metafile.inputs).map(
    path => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1],
  );
  const texts = [];
  for (const name of [...new Set(inputs)].filter(Boolean).sort()) {
    const folder = `node_modules/${name}`;
    const file = (await readdir(folder)).find(entry => /^licen[cs]e/i.test(entry));
    if (!file) {
      throw new Error(`${name} brings no licence`);
    }
    texts.push(`${name}\n\n${(await readFile(`${folder}/${file}`, 'utf8')).trim()}\n`);
  }
  await writeFile(`${options.outdir}/LICENSES.txt`, texts.join(`\n${'-'.repeat(80)}\n\n`));
}

if (process.argv.includes('--watch')) {
  await (await context(options)).watch();
} else {
  await writeLicences(await build({ ...options, metafile: true }));
}
