/** A line's text as the log needs it: without escape sequences, in columns, and whether it tells of an error. */

/** characters of an over-long line that are shown in its row, and from how many on a line is over-long */
export const SHOWN_OF_LONG = 1000;
export const LONG = 2000;
const CHIP_COLUMNS = 20;

// CSI sequences (colours, cursor), OSC sequences (titles, links), two-character escapes. None reaches
// over a line's end: whole blocks are searched at once.
export const SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
export const CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/g;
const ANY_CONTROL = /[\x00-\x08\x0b-\x1f\x7f]/;
const PRINTABLE = /^[\x20-\x7e]*$/;

/** Return `text` (one line or several) without escape sequences and control characters. */
export function plain(text: string): string {
  return ANY_CONTROL.test(text) ? text.replace(SEQUENCE, '').replace(CONTROL, '') : text;
}

/** Return the columns that plain `text` takes in a fixed-width font. */
export function displayWidth(text: string): number {
  if (PRINTABLE.test(text)) {
    return text.length;
  }
  let columns = 0;
  for (const character of text) {
    columns += character === '\t' ? 8 - (columns % 8) : widthOf(character.codePointAt(0)!);
  }
  return columns;
}

/** Return the columns that the row of plain `text` takes. */
export function shownColumns(text: string): number {
  return text.length > LONG ? displayWidth(text.slice(0, SHOWN_OF_LONG)) + CHIP_COLUMNS : displayWidth(text);
}

/** Return 2 for East Asian wide characters and emoji, 0 for what is drawn over the character before. */
function widthOf(code: number): number {
  if (code < 0x300) {
    return 1;
  }
  const wide =
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff01 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1f64f) ||
    (code >= 0x1f680 && code <= 0x1f6ff) ||
    (code >= 0x1f900 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd);
  if (wide) {
    return 2;
  }
  const over =
    code <= 0x36f ||
    (code >= 0x1ab0 && code <= 0x1aff) ||
    (code >= 0x1dc0 && code <= 0x1dff) ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x20d0 && code <= 0x20ff) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    (code >= 0xfe20 && code <= 0xfe2f);
  return over ? 0 : 1;
}

// a look that most lines fail, before the one that decides
const MAYBE = /rror|xception|Traceback|Interrupt|terminate called|Segmentation fault|Bus error|core dumped/;
const TRACEBACK = /Traceback \(most recent call last\)/;
// "ValueError: …", "torch.cuda.OutOfMemoryError: …", also behind torchrun's "[rank1]: "; a bare number behind
// the name is a metric ("MeanError: 0.2"), and the name of a metric is no class ("val_error: 0.2")
const EXCEPTION =
  /^(?:\[rank\d+\]:\s*)?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?:$|:$|:\s+(?!-?\d*\.\d+(?:[eE][-+]?\d+)?\s*(?:$|[,|]|\s\w+[:=])))/;
const NATIVE =
  /Fatal Python error|terminate called|Segmentation fault|Bus error|\(core dumped\)|\b(?:CUDA|NCCL|CUBLAS|cuBLAS|CUDNN|cuDNN)(?: runtime| driver)? error\b(?! rate)|\bnccl\w+Error\b/;

type ErrorMark = 'none' | 'traceback' | 'exception' | 'native';

/** Return the kind of error that plain `line` begins, if any. */
export function errorMark(line: string): ErrorMark {
  if (!MAYBE.test(line)) {
    return 'none';
  }
  if (TRACEBACK.test(line)) {
    return 'traceback';
  }
  if (EXCEPTION.test(line)) {
    return 'exception';
  }
  return NATIVE.test(line) ? 'native' : 'none';
}
