/** The samples that the Python tests read too. */
import { readdirSync, readFileSync } from 'node:fs';

/** from labextension/, where the tests are run */
const FOLDER = '../tests/fixtures/protocol';

export interface Sample {
  about: string;
  content: Record<string, unknown>;
  buffers: DataView[];
  expect: {
    kind: string;
    state?: string | null;
    ranks?: number;
    lines?: Record<string, string[]>;
    partial?: Record<string, string>;
    skipped?: Record<string, number>;
    charts?: { key: string; columns: (number | null)[][] }[];
    completeUntil?: number | null;
    cellLines?: number;
    failure?: { rank: number; line: number | null };
    url?: string;
    problem?: string;
  };
}

export const NAMES = readdirSync(FOLDER)
  .filter(name => name.endsWith('.json'))
  .map(name => name.replace('.json', ''));

export function sample(name: string): Sample {
  const written = JSON.parse(readFileSync(`${FOLDER}/${name}.json`, 'utf8')) as Omit<Sample, 'buffers'> & {
    buffers: string[];
  };
  return { ...written, buffers: written.buffers.map(shifted) };
}

/** As a part of a longer message, at an odd place in it, which is how widgets get theirs. */
function shifted(text: string): DataView {
  const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
  const message = new Uint8Array(bytes.length + 3);
  message.set(bytes, 3);
  return new DataView(message.buffer, 3);
}
