/** The language of the page, and tables of words in both. */
import type { Bilingual } from '../protocol/readers';

export type Language = 'en' | 'zh';

type Given = string | number;

/** A text, or what fills in what is left open in it: `{0}`, `{1}` and `{2}`, or `{n}`, a number of things, whose noun
 * in English ends in `{s}`. */
type Word<Text extends string> = Text extends `${string}{n}${string}`
  ? (count: number) => string
  : Text extends `${string}{2}${string}`
    ? (first: Given, second: Given, third: Given) => string
    : Text extends `${string}{1}${string}`
      ? (first: Given, second: Given) => string
      : Text extends `${string}{0}${string}`
        ? (only: Given) => string
        : string;

/** Takes a word in both languages: a text with open places, or a function that makes it. */
interface Translate {
  <Text extends string>(en: Text, zh: string): Word<Text>;
  <All extends unknown[]>(
    en: (...given: All) => string,
    zh: (...given: All) => string,
  ): (...given: All) => string;
}

/** Return a table of words in each language. */
export function inBoth<Table>(table: (tr: Translate) => Table): Readonly<Record<Language, Table>> {
  const pick = (language: 0 | 1): Table =>
    table(((...both: unknown[]) => {
      const word = both[language];
      return typeof word === 'string' && /\{[0n]\}/.test(word) ? filledIn(word) : word;
    }) as Translate);
  return { en: pick(0), zh: pick(1) };
}

/** Return the words of a table in the language that the page has when they are looked at. */
export function inPage<Table extends object>(tables: Readonly<Record<Language, Table>>): Table {
  return new Proxy(tables.en, { get: (_, name) => Reflect.get(tables[languageOf()], name) });
}

function filledIn(text: string): (...given: Given[]) => string {
  return (...given) => {
    const count = Number(given[0]);
    const open = new Map(Object.entries({ ...given, n: grouped(count), s: plural(count) }));
    return text.replace(/\{(\w)\}/g, (_open, name: string) => String(open.get(name)));
  };
}

/** Return true for Simplified Chinese: readers of Traditional Chinese get English. */
export function isChinese(locale: string): boolean {
  return /^zh(?![-_](tw|hk|mo|hant))/i.test(locale);
}

/** Return the page's language where it says one, else the browser's. */
export function languageOf(page: Document = document, browser = navigator.language): Language {
  return isChinese(page.documentElement.lang || browser) ? 'zh' : 'en';
}

/** Return the text in the page's language. */
export function localized(sentence: Bilingual): string {
  return sentence[languageOf()];
}

const NUMBERS = new Intl.NumberFormat('en-US');

/** Return a number with a comma between thousands. */
export const grouped = (value: number): string => NUMBERS.format(value);

/** Return the ending of an English noun for a number of things. */
export const plural = (count: number): string => (count === 1 ? '' : 's');
