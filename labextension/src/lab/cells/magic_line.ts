/** The line `%%distributed …`: its words, its completion, and other ranks in it. */
import type { Option } from '../services/client';

const MAGIC = '%%distributed';

/** Return the words of a line as a shell splits them, with the quotes that they were written with. */
function wordsOf(line: string): string[] {
  return line.match(/(?:[^\s"']+|"(?:\\.|[^"\\])*"?|'[^']*'?)+/g) ?? [];
}

/** Return the first line of a cell if it is ours, null if not. */
export function firstLine(source: string): string | null {
  const line = source.split('\n', 1)[0]!;
  return new RegExp(`^${MAGIC}(\\s|$)`).test(line) ? line : null;
}

/** Return the cell magic whose options stand on the first line of a cell, null where there is none. */
export function optionsOf(line: string): string | null {
  const magic = /^%%(distributed|ranks?)(?=\s|$)/.exec(line)?.[1] ?? null;
  return magic === 'rank' ? 'ranks' : magic;
}

/** A magic of nbdist. */
export interface Magic {
  kind: 'cell' | 'line';
  name: string;
}

/** Return the magic by which a cell uses nbdist, null where it does not. */
export function usedMagic(source: string): Magic | null {
  const cell = /^\s*%%(distributed|ranks?)(?=[\s?]|$)/.exec(source);
  if (cell) {
    return { kind: 'cell', name: cell[1]! };
  }
  const line = /^\s*(?:[\w, ]+=\s*)?\??%(distributed|dist_\w+)\b/m.exec(source);
  return line && { kind: 'line', name: line[1]! };
}

const MAGICS = (
  '%%distributed %%ranks %%rank %distributed %dist_attach %dist_board %dist_compare %dist_debug %dist_doctor %dist_eval ' +
  '%dist_explain %dist_export %dist_logs %dist_profile %dist_resume %dist_scale %dist_session %dist_stacks %dist_status ' +
  '%dist_stop %dist_warm'
).split(' ');

/** Return the magics that begin as the line does before the cursor. */
export function magicsAt(line: string, column: number): Completion | null {
  const begun = /^\s*(?:[\w, ]+=\s*)?(%{1,2}\w+)$/.exec(line.slice(0, column))?.[1];
  const items = MAGICS.filter(each => begun && each.startsWith(begun));
  return begun ? { start: column - begun.length, items: items.map(text => ({ text, label: text })) } : null;
}

/** The options that say which ranks there are, each with its value. */
const RANKS =
  /\s(?:-n|--nproc(?:[-_]per[-_]node)?|--gpus|--selected_gpus|--devices)(?:\s+|=)(?:"[^"]*"|[^\s"]+)/g;

/** Return the first line of a cell with these ranks, `-n 2` or `--gpus 0,1`; the rest of it stays as written. */
export function withRanks(line: string, ranks: string): string {
  return line.replace(RANKS, '').replace(MAGIC, `${MAGIC} ${ranks}`);
}

/** Return the cell with this first line. */
export function withFirstLine(source: string, line: string): string {
  const before = firstLine(source);
  return before === null ? `${line}\n${source}` : line + source.slice(before.length);
}

/** The completions at the cursor. */
export interface Completion {
  /** column of the first character that is replaced */
  start: number;
  items: readonly { text: string; label: string; option?: Option }[];
}

/** Return flags that begin as the word before the cursor does, or the choices of the flag in front of it. */
export function complete(line: string, column: number, options: readonly Option[]): Completion | null {
  const before = line.slice(0, column);
  const magic = optionsOf(before);
  if (magic === null || !/\s/.test(before)) {
    return null;
  }
  const word = /\S*$/.exec(before)![0];
  const flag = wordsOf(before.slice(0, before.length - word.length)).at(-1) ?? '';
  const valued = options.find(
    option => option.metavar && option.flags.includes(flag) && option.magics.includes(magic),
  );
  if (valued && !word.startsWith('-')) {
    const items = valued.choices
      .filter(choice => choice.startsWith(word))
      .map(choice => ({ text: choice, label: choice, option: valued }));
    return items.length ? { start: column - word.length, items } : null;
  }
  if (word && !word.startsWith('-')) {
    return null;
  }
  const given = new Set(wordsOf(line).filter(each => each !== word));
  const items = options
    .filter(({ magics }) => magics.includes(magic))
    .filter(option => option.many || !option.flags.some(each => given.has(each)))
    .flatMap(option =>
      spellings(option, word).map(each => ({
        text: each,
        label: `${each} ${option.metavar}`.trimEnd(),
        option,
      })),
    );
  return items.length ? { start: column - word.length, items } : null;
}

/** Return the flags of an option that begin so; of a short one and its long form one is enough. */
function spellings({ flags }: Option, begun: string): readonly string[] {
  const matches = flags.filter(each => each.startsWith(begun));
  return /^-\w$/.test(flags[0] ?? '') ? matches.slice(0, 1) : matches;
}
