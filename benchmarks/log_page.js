// The log of the page alone, fed with messages as the panel is: `equalLines` resolves once all lines stand in their
// places and are packed. Bundled by wide_screen.py.
import { RunLog } from '../labextension/src/log/run_log';
import { delta } from '../labextension/src/protocol/log';

const PART = 20;

const line = number => `step ${String(number).padStart(4)} of every rank: loss 0.5 accuracy 0.9`;

window.equalLines = async (ranks, lines) => {
  const log = new RunLog();
  const bytes = line(0).length + 1;
  for (let first = 0; first < lines; first += PART) {
    const text = Array.from({ length: PART }, (_, at) => line(first + at)).join('\n');
    const buffer = new TextEncoder().encode(text);
    const time = first / 200;
    const deltas = Array.from({ length: ranks }, (_, rank) =>
      delta({ rank, first: first * bytes, count: PART, times: [[PART, time]] }, buffer),
    );
    log.receive(deltas, first + PART < lines ? time : null);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  while (!log.settled || !log.slices.idle) {
    await new Promise(resolve => setTimeout(resolve, 20));
  }
  window.equalLog = log;
  return log.all.lines;
};
