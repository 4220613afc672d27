/**
 * Lists the packages that are bundled into the page, as CycloneDX (https://cyclonedx.org): the wheel brings the
 * list in its .dist-info/sboms (PEP 770). It has neither a date nor a number of its own, so that two builds are alike.
 */
import { readFile, writeFile } from 'node:fs/promises';

async function read(path) {
  return JSON.parse(await readFile(new URL(path, import.meta.url), 'utf8'));
}

function component({ name, version, license }) {
  const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
  return { 'bom-ref': purl, type: 'library', name, version, purl, licenses: [{ license: { id: license } }] };
}

const page = await read('package.json');
// what the panel brings, and what the JupyterLab extension brings
const lab = await read('../nbdist/labextension/static/third-party-licenses.json');
const bundled = new Set([...Object.keys(page.dependencies), ...lab.packages.map(found => found.name)]);
const components = await Promise.all(
  [...bundled].sort().map(async name => component(await read(`node_modules/${name}/package.json`))),
);
const list = {
  $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
  bomFormat: 'CycloneDX',
  specVersion: '1.6',
  version: 1,
  metadata: { component: { type: 'library', name: page.name, version: page.version } },
  components,
};
await writeFile(new URL('page.cdx.json', import.meta.url), `${JSON.stringify(list, null, 2)}\n`);
