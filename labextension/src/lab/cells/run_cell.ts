/** The cell of a run, and the path of its notebook on this server. */
import { cellSource } from '../../page/actions';
import type { RunRow } from '../services/client';
import { firstLine } from './magic_line';

/** Return the path of a notebook on this server, null outside of its folder. `root` is that folder as the page has
 * it, with `~` for the user's home. */
export function contentsPath(notebook: string, root: string): string | null {
  if (!notebook) {
    return null;
  }
  if (!notebook.startsWith('/')) {
    return notebook;
  }
  const folder = root.replace(/\/?$/, '/');
  if (!folder.startsWith('~')) {
    return notebook.startsWith(folder) ? notebook.slice(folder.length) : null;
  }
  const inHome = folder.slice(1);
  const at = inHome === '/' ? homeEnd(notebook) : notebook.indexOf(inHome);
  return at < 0 ? null : notebook.slice(at + inHome.length);
}

/** Return the end of the home folder in a path: `/root`, `/home/ada`. */
function homeEnd(path: string): number {
  return /^\/(root|(home|Users)\/[^/]+)(?=\/)/.exec(path)?.[0].length ?? -1;
}

/** Return true when `notebook`, a path of the kernel, is the file that this server calls `path`. */
export function isNotebook(notebook: string, path: string): boolean {
  return notebook !== '' && `/${notebook}`.endsWith(`/${path}`);
}

export interface CellSource {
  readonly id: string;
  readonly source: string;
}

/** Return the index of the run's cell: the one with its program (null: unknown), else the one with its id, else -1. */
export function cellOf(cells: readonly CellSource[], program: string | null, id: string): number {
  const wanted = program?.trim();
  const same = cells.flatMap(({ source }, at) => (programOf(source) === wanted ? [at] : []));
  const marked = id ? cells.findIndex(cell => cell.id === id) : -1;
  return same.length && !same.includes(marked) ? same.at(-1)! : marked;
}

/** Return the runs whose end the notebook's file, written at `saved` (Unix seconds), cannot hold, the newest first.
 * For a detached run the file holds the output of its cell, which ended when the run began. */
export function unsavedRuns(rows: readonly RunRow[], path: string, saved: number): readonly RunRow[] {
  return rows
    .filter(({ notebook }) => isNotebook(notebook, path))
    .filter(row => (row.detached ? row.created > saved : row.live || (row.ended ?? 0) > saved))
    .sort((a, b) => b.created - a.created);
}

/** Return the text of a cell that starts a run again: the cell of the notebook with its program, which has the first
 * line as typed, else the server's copy. */
export function cellAgain(cells: readonly CellSource[], program: string, line: string): string {
  const same = cells.filter(({ source }) => programOf(source) === program.trim());
  return same.at(-1)?.source ?? cellSource(line, program);
}

/** Return the part of a cell that runs on the ranks. */
function programOf(source: string): string | null {
  const line = firstLine(source);
  return line === null ? null : source.slice(line.length).trim();
}
