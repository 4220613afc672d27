/** Where a run's cell is: the notebook as this server names it, the cell in it, the line in the cell. */
import { firstLine } from './first_line';

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

/** Which of the cells is the run's: the one with its program, else the one at its place; -1 for none. */
export function cellOf(sources: readonly string[], program: string, index: number | null): number {
  const same = sources.flatMap((source, at) => (programOf(source) === program.trim() ? [at] : []));
  if (same.length) {
    return index !== null && same.includes(index) ? index : same.at(-1)!;
  }
  return index !== null && firstLine(sources[index] ?? '') !== null ? index : -1;
}

/** What of a cell runs on the ranks. */
function programOf(source: string): string | null {
  const line = firstLine(source);
  return line === null ? null : source.slice(line.length).trim();
}
