/** Outputs drawn in a log. None runs a script here. */
import { heightInLines, LEAST, LINE, type Output, type Outputs } from '../log/outputs';
import { element } from '../page/nodes';

// no script, form, frame or new tab works in a sandbox, and every link is to a new tab; nothing is loaded from elsewhere
const HEAD =
  '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; font-src data:; ' +
  'style-src \'unsafe-inline\'"><meta name="color-scheme" content="THEME"><base target="_blank">' +
  '<style>body{margin:4px 0;font:13px/1.4 system-ui,sans-serif}' +
  'table{border-collapse:collapse;border:0}td,th{padding:2px 8px;border:0;text-align:right}</style>';

/** Return a node in which the output is drawn, as soon as it is here; `text` stands for it. */
export function outputNode(outputs: Outputs, output: Output, rank: number, text: string): HTMLElement {
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
  outputs.want(output.name, rank, source => fill(node, source));
  return node;
}

function fill(node: HTMLElement, source: string): void {
  if (node instanceof HTMLImageElement) {
    node.src = source;
  } else if (node.isConnected) {
    write(node as HTMLIFrameElement, source);
  } else {
    requestAnimationFrame(() => write(node as HTMLIFrameElement, source));
  }
}

/** Write HTML into a frame, in the colours of the panel around it. */
function write(frame: HTMLIFrameElement, source: string): void {
  const theme = frame.closest<HTMLElement>('[data-theme]')?.dataset['theme'] === 'dark' ? 'dark' : 'light';
  frame.srcdoc = HEAD.replace('THEME', theme) + source;
}
