/** The little of Node that the tests use. */
declare module 'node:fs' {
  export function readFileSync(path: string, encoding: 'utf8'): string;
  export function readdirSync(path: string, how?: { recursive: true; encoding: 'utf8' }): string[];
}
declare module 'node:util' {
  export const TextDecoder: typeof globalThis.TextDecoder;
  export const TextEncoder: typeof globalThis.TextEncoder;
}
