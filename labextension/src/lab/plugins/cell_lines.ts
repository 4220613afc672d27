/** A line of a cell, shown in its editor. */
import type { Cell } from '@jupyterlab/cells';

/** Selects the line (1 is the editor's first) and brings it into view. */
export async function showLine(cell: Cell, line: number): Promise<void> {
  await cell.ready;
  const { editor } = cell;
  if (!editor) {
    return;
  }
  const at = line - 1;
  const text = editor.getLine(at);
  if (text === undefined) {
    return;
  }
  editor.setSelection({ start: { line: at, column: 0 }, end: { line: at, column: text.length } });
  editor.revealPosition({ line: at, column: 0 });
  editor.focus();
}
