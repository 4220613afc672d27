/** The outputs in logs: lines that stand for a picture or HTML (written by nbdist/worker/display.py), the received
 * files, and their drawing. No output runs a script here. */
import { element } from '../page';

const MARK = '\x1b]nbdist;';
const OUTPUT = /\x1b\]nbdist;([0-9a-f]{32}\.(png|jpg|svg|html));(\d{1,6});(\d{1,6})\x07/;

/** pixels of a text line, and of what an output takes below its own */
const LINE = 20;
const HIGHEST = 300;
const HTML_HEIGHT = 160;
const UNKNOWN_HEIGHT = 240;
/** least height of a drawn output: digits of 28 pixels */
const LEAST = 60;
/** bytes of outputs that the page keeps */
const KEPT = 128 * 1024 * 1024;
/** nodes that wait for one output */
const NODES = 100;
/** milliseconds until what did not come is asked for again */
const PATIENCE = 10_000;

const TYPES = { png: 'image/png', jpg: 'image/jpeg', svg: 'image/svg+xml', html: 'text/html' } as const;
type Ending = keyof typeof TYPES;

// no script, form, frame or new tab works in a sandbox, and every link is to a new tab; nothing is loaded from elsewhere
const HEAD =
  '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; font-src data:; ' +
  'style-src \'unsafe-inline\'"><meta name="color-scheme" content="THEME"><base target="_blank">' +
  '<style>body{margin:4px 0;font:13px/1.4 system-ui,sans-serif}' +
  'table{border-collapse:collapse;border:0}td,th{padding:2px 8px;border:0;text-align:right}</style>';

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

interface Kept {
  /** an address for pictures, the text of HTML */
  readonly source: string;
  readonly size: number;
}

export class Outputs {
  /** asks for an output of a rank: it comes by `put`, or never */
  ask: (rank: number, name: string) => void = () => undefined;
  private readonly kept = new Map<string, Kept>();
  private readonly waiting = new Map<string, { askedAt: number; nodes: Set<HTMLElement> }>();
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
    this.waiting.get(name)?.nodes.forEach(node => this.fill(node, name));
    this.waiting.delete(name);
  }

  /** Forget what has come: the run is not shown any more. */
  clear(): void {
    this.kept.forEach(({ source }) => URL.revokeObjectURL?.(source));
    this.kept.clear();
    this.size = 0;
  }

  /** Return a node in which the output is drawn, as soon as it is here; `text` stands for it. */
  node(output: Output, rank: number, text: string): HTMLElement {
    const html = output.ending === 'html';
    const node = element(html ? 'iframe' : 'img', 'nbdist-output');
    const height = (heightInLines(output) - 1) * LINE;
    if (html) {
      // set before anything is in it: no scripts, no forms, no popups, an origin of its own
      node.setAttribute('sandbox', '');
      node.setAttribute('referrerpolicy', 'no-referrer');
      node.style.height = `${height}px`;
    } else {
      node.style.maxHeight = `${height}px`;
      if (output.height && output.height < LEAST) {
        node.style.height = `${LEAST}px`;
        node.classList.add('nbdist-small');
      }
      node.setAttribute('decoding', 'async');
    }
    node.title = text;
    node.setAttribute(html ? 'aria-label' : 'alt', text);
    if (this.kept.has(output.name)) {
      this.fill(node, output.name);
    } else {
      this.want(node, output.name, rank);
    }
    return node;
  }

  private fill(node: HTMLElement, name: string): void {
    const { source } = this.kept.get(name)!;
    if (node instanceof HTMLImageElement) {
      node.src = source;
    } else if (node.isConnected) {
      write(node as HTMLIFrameElement, source);
    } else {
      requestAnimationFrame(() => write(node as HTMLIFrameElement, source));
    }
  }

  private want(node: HTMLElement, name: string, rank: number): void {
    const wanted = this.waiting.get(name) ?? { askedAt: -Infinity, nodes: new Set() };
    this.waiting.set(name, wanted);
    wanted.nodes.add(node);
    // a row that is scrolled away and comes back is another node
    for (const oldest of wanted.nodes) {
      if (wanted.nodes.size <= NODES) {
        break;
      }
      wanted.nodes.delete(oldest);
    }
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

/** Write HTML into a frame, in the colours of the panel around it. */
function write(frame: HTMLIFrameElement, source: string): void {
  const theme = frame.closest<HTMLElement>('[data-theme]')?.dataset['theme'] === 'dark' ? 'dark' : 'light';
  frame.srcdoc = HEAD.replace('THEME', theme) + source;
}
