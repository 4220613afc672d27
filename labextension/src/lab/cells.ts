/** The cell of a run: its line `%%distributed …`, the path of its notebook on this server, and the links in its outputs. */
import { type PageRequest, askPage, cellSource, element } from '../page';
import { pageWords } from '../words';
import type { Option, RunRow } from './client';

const MAGIC = '%%distributed';

/** The choices of the form. */
export interface Wanted {
  /** ranks on the CPU, or ids of GPUs */
  ranks: { kind: 'cpu'; count: number } | { kind: 'gpus'; ids: readonly number[] };
  name: string;
  framework: string;
  detach: boolean;
}

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

const MAGICS = [
  '%%distributed',
  '%%ranks',
  '%%rank',
  '%distributed',
  '%dist_attach',
  '%dist_board',
  '%dist_compare',
  '%dist_doctor',
  '%dist_explain',
  '%dist_export',
  '%dist_logs',
  '%dist_resume',
  '%dist_session',
  '%dist_stacks',
  '%dist_status',
  '%dist_stop',
  '%dist_warm',
  '%distributed',
];

/** Return the magics that begin as the line does before the cursor: a kernel knows them only once nbdist is loaded. */
export function magicsAt(line: string, column: number): { start: number; names: readonly string[] } {
  const begun = /^\s*(?:[\w, ]+=\s*)?(%{1,2}\w+)$/.exec(line.slice(0, column))?.[1];
  const names = begun ? MAGICS.filter(each => each.startsWith(begun)) : [];
  return { start: column - (begun?.length ?? 0), names };
}

const COUNT = ['-n', '--nproc', '--nproc_per_node', '--nproc-per-node'];
const GPUS = ['--gpus', '--selected_gpus', '--devices'];
const NAME = ['--name'];
const FRAMEWORK = ['--framework'];
const DETACH = ['-d', '--detach'];
const ASKED: readonly (readonly string[])[] = [COUNT, GPUS, NAME, FRAMEWORK];

/** Return the choices that the cell's first line makes now, as far as the form knows them. */
export function wantedOf(source: string): Wanted {
  const wanted: Wanted = { ranks: { kind: 'cpu', count: 2 }, name: '', framework: 'auto', detach: false };
  for (const { flag, value } of pairs(wordsOf(firstLine(source) ?? '').slice(1))) {
    if (COUNT.includes(flag) && /^\d+$/.test(value)) {
      wanted.ranks = { kind: 'cpu', count: Number(value) };
    } else if (GPUS.includes(flag) && /^[\d, ]+$/.test(unquoted(value))) {
      const ids = unquoted(value).split(',').map(Number);
      wanted.ranks = { kind: 'gpus', ids };
    } else if (NAME.includes(flag)) {
      wanted.name = unquoted(value);
    } else if (FRAMEWORK.includes(flag)) {
      wanted.framework = value;
    } else if (DETACH.includes(flag)) {
      wanted.detach = true;
    }
  }
  return wanted;
}

/** Return the cell with this first line: options that the form does not know stay as they were written. */
export function withFirstLine(source: string, wanted: Wanted): string {
  const before = firstLine(source);
  const kept = pairs(wordsOf(before ?? '').slice(1))
    .filter(({ flag }) => ![...ASKED, DETACH].some(flags => flags.includes(flag)))
    .map(({ written }) => written);
  const { ranks, name, framework, detach } = wanted;
  const words = [
    MAGIC,
    ranks.kind === 'cpu' ? `-n ${ranks.count}` : `--gpus ${ranks.ids.join(',')}`,
    ...(framework === 'auto' ? [] : [`--framework ${framework}`]),
    ...(name ? [`--name ${quoted(name)}`] : []),
    ...(detach ? ['-d'] : []),
    ...kept,
  ];
  const rest = before === null ? source : source.slice(before.length).replace(/^\n/, '');
  return `${words.join(' ')}\n${rest}`;
}

interface Pair {
  flag: string;
  value: string;
  written: string;
}

/** Return flags with their values: a word that is no flag belongs to the flag before it. */
function pairs(words: readonly string[]): readonly Pair[] {
  const options: Pair[] = [];
  for (const word of words) {
    const last = options.at(-1);
    if (word.startsWith('-') || !last) {
      const [flag, ...value] = word.split('=');
      options.push({ flag: flag!, value: value.join('='), written: word });
    } else {
      last.value = last.value ? `${last.value} ${word}` : word;
      last.written += ` ${word}`;
    }
  }
  return options;
}

function unquoted(word: string): string {
  return word.replace(/^(["'])(.*)\1$/, '$2');
}

function quoted(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `"${text.replace(/["\\]/g, '')}"`;
}

/** The completions at the cursor. */
export interface Completion {
  /** column of the first character that is replaced */
  start: number;
  items: readonly { text: string; label: string; option: Option }[];
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

/** Return the option whose name is at this column, and where the name stands. */
export function optionAt(
  line: string,
  column: number,
  options: readonly Option[],
): { option: Option; from: number; to: number } | null {
  const magic = optionsOf(line);
  if (magic === null) {
    return null;
  }
  for (const match of line.matchAll(/(?<=\s)-[^\s=]+/g)) {
    const from = match.index;
    const to = from + match[0].length;
    const option = options.find(each => each.flags.includes(match[0]) && each.magics.includes(magic));
    if (option && from <= column && column <= to) {
      return { option, from, to };
    }
  }
  return null;
}

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

const NAMED = /\bline (\d+) of the cell\b|\bcell line (\d+)|单元格?第 (\d+) 行/i;

/** Return the line of the cell that a clicked part of an output names: a link of the panel, or words of a summary or an
 * error. */
export function linkedLine(clicked: Element): number | null {
  const link = clicked.closest<HTMLElement>('[data-cell-line]');
  if (link) {
    return Number(link.dataset['cellLine']);
  }
  const code = clicked.closest('.nbdist-summary :not(.n-other) > .n-at');
  if (code) {
    return numberIn(/^\W*(\d+)/.exec(code.textContent ?? ''));
  }
  const button = clicked.closest('.nbdist .nbdist-cell-link, .nbdist .nbdist-failure button');
  if (button) {
    const name = button.getAttribute('title') ?? button.textContent ?? '';
    return numberIn(NAMED.exec(name));
  }
  const outcome = clicked.closest('.nbdist-summary b, .nbdist-summary .n-headline');
  return outcome ? numberIn(NAMED.exec(outcome.textContent ?? '')) : null;
}

/** Make links of what names a line of the cell in the text of an error. */
export function linkLines(error: Element): void {
  const texts = document.createTreeWalker(error, NodeFilter.SHOW_TEXT);
  const matches: [Text, RegExpExecArray][] = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const match = NAMED.exec(node.nodeValue ?? '');
    if (match && !node.parentElement?.closest('[data-cell-line]')) {
      matches.push([node as Text, match]);
    }
  }
  for (const [node, match] of matches) {
    const named = node.splitText(match.index);
    const rest = named.splitText(match[0].length);
    const line = numberIn(match)!;
    const link = element('button', 'nbdist-error-link') as HTMLButtonElement;
    link.type = 'button';
    link.dataset['cellLine'] = String(line);
    link.title = pageWords().toCell(line);
    named.replaceWith(link);
    link.append(named);
    // a text may name several lines
    if (NAMED.test(rest.nodeValue ?? '')) {
      linkLines(error);
    }
  }
}

function numberIn(match: RegExpExecArray | null): number | null {
  const number = match?.slice(1).find(Boolean);
  return number === undefined ? null : Number(number);
}

/** The place of a button that writes the line which mends a cell, and runs it. */
export const MENDED = '.nbdist-mended[data-line]';

export function addMendingButton(place: HTMLElement, run: (line: string) => void): void {
  if (!place.firstChild) {
    const button = element(
      'button',
      'nbdist-summary-button',
      place.dataset['label'] ?? '',
    ) as HTMLButtonElement;
    button.type = 'button';
    button.addEventListener('click', () => run(place.dataset['line']!));
    place.append(button);
  }
}

/** Summaries of runs whose page may act on them: one that is not trusted has lost its run. */
export const SUMMARY = '.nbdist-summary[data-run]';

export function addButtons(summary: HTMLElement): void {
  const words = pageWords();
  const foot = summary.querySelector<HTMLElement>('.n-foot');
  const full = foot?.querySelector<HTMLElement>('.n-full');
  if (!full || foot!.querySelector('button')) {
    return;
  }
  const runId = summary.dataset['run']!;
  const label = summary.dataset['label'] ?? runId;
  const button = (text: string, request: Pick<PageRequest, 'action' | 'tab'>): HTMLElement => {
    const made = element('button', 'nbdist-summary-button', text) as HTMLButtonElement;
    made.type = 'button';
    made.addEventListener('click', () => askPage({ ...request, runId, label, from: made }));
    return made;
  };
  full.hidden = true;
  full.after(
    button(words.logs, { action: 'open', tab: 'all' }),
    button(words.charts, { action: 'open', tab: 'metrics' }),
    button(words.dashboard, { action: 'open' }),
    button(words.runAgain, { action: 'again' }),
  );
}
