import { expect, test } from '@jest/globals';

import { displayWidth, errorMark, plain, shownColumns } from '../src/log/ansi';
import { rangesOf } from '../src/log/rows';

test.each([
  ['colours', '\x1b[1;31mred\x1b[0m', 'red'],
  ['a cursor', 'a\x1b[2K\x1b[1Ab', 'ab'],
  ['a title', '\x1b]0;title\x07text', 'text'],
  ['a link', '\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\', 'here'],
  ['a bell and a stray escape', 'a\x07\x1b', 'a'],
  ['nothing but a tab', 'a\tb', 'a\tb'],
])('plain text has none of %s', (_, line, text) => {
  expect(plain(line)).toBe(text);
});

test('a sequence that never ends does not take the next line with it', () => {
  expect(plain('\x1b]0;open\nnext')).toContain('\nnext');
});

test.each([
  ['letters', 'abc', 3],
  ['Chinese', '损失 1', 6],
  ['full width', '\uff21\uff22', 4],
  ['a combining accent', 'e\u0301', 1],
  ['an emoji', '🙂', 2],
  ['a tab', 'ab\tc', 9],
  ['a bar', '48%|████▊     |', 15],
])('columns of %s', (_, text, columns) => {
  expect(displayWidth(text)).toBe(columns);
});

test('an over-long line takes the columns of what is shown of it', () => {
  expect(shownColumns('x'.repeat(2000))).toBe(2000);
  expect(shownColumns('x'.repeat(16_000))).toBe(1020);
});

test.each([
  ['Traceback (most recent call last):', 'traceback'],
  ['[rank1]: Traceback (most recent call last):', 'traceback'],
  ['ValueError: label value should be less than 10', 'exception'],
  ['[rank3]: torch.cuda.OutOfMemoryError: CUDA out of memory.', 'exception'],
  ['KeyError: 5', 'exception'],
  ['AssertionError', 'exception'],
  ['KeyboardInterrupt', 'exception'],
  ['paddle.base.core.EnforceNotMet.SomeException: no', 'exception'],
  ['Fatal Python error: Segmentation fault', 'native'],
  ["terminate called after throwing an instance of 'c10::Error'", 'native'],
  ['Segmentation fault (core dumped)', 'native'],
  ['NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled system error', 'native'],
  ['CUDA error: device-side assert triggered', 'native'],
  ['error rate 0.1', 'none'],
  ['val_error: 0.2', 'none'],
  ['MeanError: 0.2', 'none'],
  ['MeanSquaredError: 0.25, acc: 0.9', 'none'],
  ['step 3 Error: 0.1', 'none'],
  ['training with ErrorFeedback: on', 'none'],
  ['an exception to the rule', 'none'],
  ['TrainingInterrupted', 'none'],
  ['epoch 1 errors 0', 'none'],
  ['', 'none'],
])('%s', (line, mark) => {
  expect(errorMark(line)).toBe(mark);
});

test.each([
  [[0], '0'],
  [[0, 1], '0–1'],
  [[0, 1, 2, 3], '0–3'],
  [[0, 2, 5, 6, 7], '0,2,5–7'],
])('ranks %j', (ranks, label) => {
  expect(rangesOf(ranks)).toBe(label);
});
