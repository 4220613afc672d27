/** From JSON to values. A reader takes a value as it was sent, and throws `Malformed` where it is not as agreed:
 * half a message would show half the truth. What is not known yet (a field of a later version) is let be. */
export type Fields = Record<string, unknown>;

/** A text of the kernel or the server in both languages. */
export interface Bilingual {
  en: string;
  zh: string;
}

/** Reads a value; `fields` and `name` say where it stood, for what is written in two fields. */
export type Reader<Value> = (value: unknown, fields: Fields, name: string) => Value;

export class Malformed extends Error {}

/** Return what `read` returns; null where it finds a value malformed. */
export function nullIfMalformed<Value>(read: () => Value): Value | null {
  try {
    return read();
  } catch (problem) {
    if (problem instanceof Malformed) {
      return null;
    }
    throw problem;
  }
}

export function need(claim: boolean): asserts claim {
  if (!claim) {
    throw new Malformed();
  }
}

/** Read an object with these fields, which are sent in snake_case. */
export function fields<Shape extends Record<string, Reader<unknown>>>(
  shape: Shape,
): (value: unknown) => { [Name in keyof Shape]: ReturnType<Shape[Name]> } {
  const readers = Object.entries(shape).map(([name, read]) => {
    const sent = name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
    return (from: Fields) => [name, read(from[sent], from, sent)] as const;
  });
  return value => {
    const from = object(value);
    return Object.fromEntries(readers.map(read => read(from))) as ReturnType<
      ReturnType<typeof fields<Shape>>
    >;
  };
}

export function listOf<Value>(read: Reader<Value>): (value: unknown) => readonly Value[] {
  return value => {
    need(Array.isArray(value));
    return value.map(each => read(each, {}, ''));
  };
}

/** Read a value that may be missing, and then is `otherwise`. */
export function or<Value, Other>(read: Reader<Value>, otherwise: Other): Reader<Value | Other> {
  return (value, from, name) => (value === null || value === undefined ? otherwise : read(value, from, name));
}

export function oneOf<Choice extends string>(...choices: readonly Choice[]): (value: unknown) => Choice {
  return value => {
    const match = choices.find(choice => choice === value);
    need(match !== undefined);
    return match;
  };
}

/** Read a field in English, and `…_zh` in Chinese; where that is missing, use the English. */
export function bilingual(value: unknown, from: Fields, name: string): Bilingual {
  const en = text(value ?? '');
  return { en, zh: text(from[`${name}_zh`] ?? '') || en };
}

export function object(value: unknown): Fields {
  need(typeof value === 'object' && value !== null && !Array.isArray(value));
  return value as Fields;
}

export function text(value: unknown): string {
  need(typeof value === 'string');
  return value;
}

export function flag(value: unknown): boolean {
  need(typeof value === 'boolean');
  return value;
}

export function number(value: unknown): number {
  need(typeof value === 'number' && Number.isFinite(value));
  return value;
}

export function count(value: unknown): number {
  need(Number.isInteger(value) && (value as number) >= 0);
  return value as number;
}

export function pair(first: Reader<number>, second: Reader<number>): Reader<readonly [number, number]> {
  return (value, ...from) => {
    need(Array.isArray(value));
    return [first(value[0], ...from), second(value[1], ...from)];
  };
}

/** A binary part of a message, as the different widget managers hand it over. */
export type Buffer = ArrayBuffer | ArrayBufferView;

export function bytes(buffer: Buffer | undefined): Uint8Array {
  need(buffer !== undefined);
  return ArrayBuffer.isView(buffer)
    ? new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    : new Uint8Array(buffer);
}
