/** Where a run's cell is: the notebook as this server names it, the cell in it, the line in the cell. */
import { firstLine } from './first_line';
import type { RunRow } from './rows';

/**
 * The path of a notebook for this server, null when it lies outside what the server serves. `root` is the
 * server's folder as it tells the page, with `~` for the home of its user.
 */
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

/** Where the home folder ends in a path: `/root`, `/home/ada`. */
function homeEnd(path: string): number {
  return /^\/(root|(home|Users)\/[^/]+)(?=\/)/.exec(path)?.[0].length ?? -1;
}

/** Whether a notebook, as a kernel knows it, is the one that this server calls `path`. */
export function isNotebook(notebook: string, path: string): boolean {
  return notebook !== '' && `/${notebook}`.endsWith(`/${path}`);
}

export interface CellPlace {
  readonly id: string;
  readonly source: string;
}

/** Which of the cells is the run's: the one with its program (null: not known), else the one with its
 * id; -1 for none. */
export function cellOf(cells: readonly CellPlace[], program: string | null, id: string): number {
  const wanted = program?.trim();
  const same = cells.flatMap(({ source }, at) => (programOf(source) === wanted ? [at] : []));
  const marked = id ? cells.findIndex(cell => cell.id === id) : -1;
  return same.length && !same.includes(marked) ? same.at(-1)! : marked;
}

/**
 * The runs of a notebook of which its file, written at `saved` (Unix seconds), cannot hold how they ended, the
 * newest first. Of a detached run the file has what its cell showed at its end, which was when the run began.
 */
export function unsavedRuns(rows: readonly RunRow[], path: string, saved: number): readonly RunRow[] {
  return rows
    .filter(({ notebook }) => isNotebook(notebook, path))
    .filter(row => (row.detached ? row.created > saved : row.live || (row.ended ?? 0) > saved))
    .sort((one, other) => other.created - one.created);
}

/** What of a cell runs on the ranks. */
function programOf(source: string): string | null {
  const line = firstLine(source);
  return line === null ? null : source.slice(line.length).trim();
}
