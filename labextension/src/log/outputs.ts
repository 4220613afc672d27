/** The outputs in logs: lines that stand for a picture or HTML (written by nbdist/worker/display.py), and the files that
 * came for them. */
export const MARK = '\x1b]nbdist;';
export const OUTPUT = /\x1b\]nbdist;([0-9a-f]{32}\.(png|jpg|svg|html));(\d{1,6});(\d{1,6})\x07/;

/** pixels of a text line, and of what an output takes below its own */
export const LINE = 20;
export const HIGHEST = 300;
export const HTML_HEIGHT = 160;
export const UNKNOWN_HEIGHT = 240;

/** least height of a drawn output: digits of 28 pixels */
export const LEAST = 60;
export const TYPES = {
  png: 'image/png',
  jpg: 'image/jpeg',
  svg: 'image/svg+xml',
  html: 'text/html',
} as const;

export type Ending = keyof typeof TYPES;

/** A picture, or HTML, by the name of its file. Pixels are 0 where they are not known. */
export interface Output {
  readonly name: string;
  readonly ending: Ending;
  readonly width: number;
  readonly height: number;
}

/** Return the output that a line stands for; null for text. */
export function outputOf(line: string): Output | null {
  const match = line.includes(MARK) ? OUTPUT.exec(line) : null;
  return (
    match && {
      name: match[1]!,
      ending: match[2] as Ending,
      width: Number(match[3]),
      height: Number(match[4]),
    }
  );
}

/** Return the height of an output's row in lines, its text included. */
export function heightInLines({ ending, height }: Output): number {
  const known = height || (ending === 'html' ? HTML_HEIGHT : UNKNOWN_HEIGHT);
  return 1 + Math.ceil(Math.min(HIGHEST, Math.max(LEAST, known)) / LINE);
}

/** bytes of outputs that the page keeps */
const KEPT = 128 * 1024 * 1024;

/** milliseconds until what did not come is asked for again */
const PATIENCE = 10_000;

/** Takes the source of an output: an address for pictures, the text of HTML. */
type Take = (source: string) => void;

/** The received files. */
export class Outputs {
  /** asks for an output of a rank: it comes by `put`, or never */
  ask: (rank: number, name: string) => void = () => undefined;
  private readonly kept = new Map<string, { source: string; size: number }>();
  private readonly waiting = new Map<string, { askedAt: number; takers: Take[] }>();
  private size = 0;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Take a received output. */
  put(name: string, data: Uint8Array): void {
    const ending = name.slice(name.lastIndexOf('.') + 1) as Ending;
    if (this.kept.has(name) || !(ending in TYPES)) {
      return;
    }
    this.kept.set(name, { source: sourceOf(ending, data), size: data.length });
    this.size += data.length;
    for (const [oldest, { source, size }] of this.kept) {
      if (this.size <= KEPT || oldest === name) {
        break;
      }
      this.kept.delete(oldest);
      this.size -= size;
      URL.revokeObjectURL?.(source);
    }
    const { source } = this.kept.get(name)!;
    this.waiting.get(name)?.takers.forEach(take => take(source));
    this.waiting.delete(name);
  }

  /** Forget what has come: the run is not shown any more. */
  clear(): void {
    this.kept.forEach(({ source }) => URL.revokeObjectURL?.(source));
    this.kept.clear();
    this.size = 0;
  }

  /** Give the source of an output to `take`, at once or when it has come. */
  want(name: string, rank: number, take: Take): void {
    const here = this.kept.get(name);
    if (here) {
      take(here.source);
      return;
    }
    const wanted = this.waiting.get(name) ?? { askedAt: -Infinity, takers: [] };
    this.waiting.set(name, wanted);
    wanted.takers.push(take);
    if (this.now() - wanted.askedAt >= PATIENCE) {
      wanted.askedAt = this.now();
      this.ask(rank, name);
    }
  }
}

function sourceOf(ending: Ending, data: Uint8Array): string {
  if (ending === 'html') {
    return new TextDecoder().decode(data);
  }
  if (ending === 'svg') {
    // opened in a tab of its own a blob would run its scripts with the rights of this page
    return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new TextDecoder().decode(data))}`;
  }
  return URL.createObjectURL(new Blob([data.slice()], { type: TYPES[ending] }));
}
