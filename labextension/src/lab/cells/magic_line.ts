/** The line `%%distributed …`: its words, its completion, the choices of a form in it. */
import type { Option } from '../services/client';

const MAGIC = '%%distributed';

/** The choices of the form. */
export interface Wanted {
  /** ranks on GPUs of these ids, else so many on the CPU */
  onGpus: boolean;
  gpus: readonly number[];
  count: number;
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
  '%dist_scale',
  '%dist_session',
  '%dist_stacks',
  '%dist_status',
  '%dist_stop',
  '%dist_warm',
];

/** Return the magics that begin as the line does before the cursor. */
export function magicsAt(line: string, column: number): Completion | null {
  const begun = /^\s*(?:[\w, ]+=\s*)?(%{1,2}\w+)$/.exec(line.slice(0, column))?.[1];
  const items = MAGICS.filter(each => begun && each.startsWith(begun));
  return begun ? { start: column - begun.length, items: items.map(text => ({ text, label: text })) } : null;
}

const COUNT = ['-n', '--nproc', '--nproc_per_node', '--nproc-per-node'];
const GPUS = ['--gpus', '--selected_gpus', '--devices'];
const NAME = ['--name'];
const FRAMEWORK = ['--framework'];
const DETACH = ['-d', '--detach'];
const ASKED: readonly (readonly string[])[] = [COUNT, GPUS, NAME, FRAMEWORK];

/** Return the choices that the cell's first line makes now, as far as the form knows them. */
export function wantedOf(source: string): Wanted {
  const wanted = {
    onGpus: false,
    gpus: [] as number[],
    count: 2,
    name: '',
    framework: 'auto',
    detach: false,
  };
  for (const { flag, value } of pairs(wordsOf(firstLine(source) ?? '').slice(1))) {
    if (COUNT.includes(flag) && /^\d+$/.test(value)) {
      wanted.count = Number(value);
    } else if (GPUS.includes(flag) && /^[\d, ]+$/.test(unquoted(value))) {
      wanted.onGpus = true;
      wanted.gpus = unquoted(value).split(',').map(Number);
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
  const { onGpus, gpus, count, name, framework, detach } = wanted;
  const words = [
    MAGIC,
    onGpus ? `--gpus ${gpus.join(',')}` : `-n ${count}`,
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
