/**
 * Builds the JupyterLab extension into nbdist/labextension/ with JupyterLab's own builder, which needs no
 * JupyterLab: what is shared with it (React, Lumino, CodeMirror, …) is listed in @jupyterlab/core-meta.
 */
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);
const builder = dirname(require.resolve('@jupyter/builder/package.json'));
const core = join(dirname(require.resolve('@jupyterlab/core-meta/package.json')), 'core.package.json');

const built = spawnSync(
  process.execPath,
  [
    join(builder, 'lib', 'build-labextension.js'),
    '--core-package-file',
    core,
    ...process.argv.slice(2),
    import.meta.dirname,
  ],
  { stdio: ['ignore', 'pipe', 'inherit'], encoding: 'utf8' },
);
if (built.status !== 0) {
  process.stderr.write(built.stdout);
  process.exit(built.status ?? 1);
}

// What a page is told about the extension; what it was built with is nobody's business there.
const described = new URL('../nbdist/labextension/package.json', import.meta.url);
const { name, version, description, license, jupyterlab } = JSON.parse(await readFile(described, 'utf8'));
const told = `${JSON.stringify({ name, version, description, license, jupyterlab }, null, 2)}\n`;
await writeFile(described, told);
await writeFile(new URL('schemas/nbdist/package.json.orig', described), told);
await writeFile(
  new URL('install.json', described),
  `${JSON.stringify({
    packageManager: 'python',
    packageName: 'nbdist',
    uninstallInstructions: 'Use your Python package manager (pip, conda, ...) to uninstall nbdist',
  })}\n`,
);
