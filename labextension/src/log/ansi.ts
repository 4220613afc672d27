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
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3040-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1faff}\u{20000}-\u{3fffd}]/u;
// marks, joiners and what chooses a form; not the soft hyphen
const OVER = /[\p{Mn}\p{Me}\u200b-\u200f]/u;

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
    columns += character === '\t' ? 8 - (columns % 8) : widthOf(character);
  }
  return columns;
}

/** Return the columns that the row of plain `text` takes. */
export function shownColumns(text: string): number {
  return text.length > LONG ? displayWidth(text.slice(0, SHOWN_OF_LONG)) + CHIP_COLUMNS : displayWidth(text);
}

/** Return 2 for East Asian wide characters and emoji, 0 for what is drawn over the character before. */
function widthOf(character: string): number {
  return WIDE.test(character) ? 2 : OVER.test(character) ? 0 : 1;
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
