/** The title of the page, which a reader of another tab sees. */
import { doneText } from '../../words/formats';
import type { RunRow } from '../services/client';

const PROGRESS = /^\d+\s?% · \S+ · /;

/** Return the title of the page with how far the newest live run is: `63 % · lenet-k3f9 · JupyterLab`. */
export function titleOf(title: string, rows: readonly RunRow[]): string {
  const own = title.replace(PROGRESS, '');
  const row = rows.find(({ live, progress }) => live && progress !== null);
  return row ? `${doneText(row.progress)} · ${row.label} · ${own}` : own;
}
