import { RunModel } from '../src/model/run_model';
import { decode, type Message, type Update } from '../src/protocol/run';
import { delta } from './log_fakes';
import { sample } from './samples';

/** Time that stands until it is moved, and frames that come when they are told to. */
class SlowPage {
  seconds = 100;
  private readonly waiting: (() => void)[] = [];

  now = (): number => this.seconds;
  frame = (draw: () => void): void => void this.waiting.push(draw);

  drawFrames(): number {
    const due = this.waiting.splice(0);
    due.forEach(draw => draw());
    return due.length;
  }
}

function read(name: string): Message {
  const { content, buffers } = sample(name);
  return decode(content, buffers)!;
}

test('listeners are told once a frame, however much came', () => {
  const page = new SlowPage();
  const run = new RunModel(page);
  let calls = 0;
  run.subscribe(() => calls++);

  run.receive(read('first_update'));
  run.receive(read('running'));
  run.receive(read('band_chart'));

  expect(calls).toBe(0);
  expect(page.drawFrames()).toBe(1);
  expect(calls).toBe(1);
});

test('a listener that left is not told any more', () => {
  const page = new SlowPage();
  const run = new RunModel(page);
  let calls = 0;
  const leave = run.subscribe(() => calls++);
  leave();

  run.receive(read('running'));
  page.drawFrames();

  expect(calls).toBe(0);
});

test('lines alone change nothing but the log; an error among them is counted', () => {
  const page = new SlowPage();
  const run = new RunModel(page);
  run.receive(read('running'));
  page.drawFrames();
  const before = run.version;
  const lines = (first: number, text: string): Update => ({
    ...(read('running') as Update),
    view: null,
    leftOut: null,
    deltas: [delta(3, first, [text])],
  });

  run.receive(lines(0, 'step 1'));
  expect([run.version, page.drawFrames()]).toEqual([before, 0]);
  expect(run.log.rank(3).lines).toBe(1);

  run.receive(lines(1, 'ValueError: no'));
  expect([run.version, page.drawFrames()]).toEqual([before + 1, 1]);
});

test('what a message leaves out stays', () => {
  const run = new RunModel(new SlowPage());

  run.receive(read('first_update'));
  run.receive(read('band_chart'));
  run.receive(read('ranks_chart'));
  run.receive(read('keyframe'));

  expect(run.view?.state).toBe('starting');
  expect(run.cell).toContain('import nbdist');
  expect([...run.charts.keys()]).toEqual(['metric/loss', 'system/gpu_memory']);
  expect(run.leftOut).toBe(13);
});

test('when a view came is another time than when anything came', () => {
  const page = new SlowPage();
  const run = new RunModel(page);

  run.receive(read('running'));
  page.seconds = 107;
  run.receive(read('keyframe'));

  expect([run.viewAt, run.heardAt]).toEqual([100, 107]);
});

test('lines that are missing are asked for at once, then ever more seldom', () => {
  const page = new SlowPage();
  const run = new RunModel(page);
  const gap = read('keyframe');

  run.receive(gap);
  const pulls: number[] = [];
  for (let second = 0; second < 40; second++) {
    if (run.wantsPull()) {
      pulls.push(second);
    }
    page.seconds += 1;
  }

  expect(run.log.incomplete).toBe(true);
  expect(pulls).toEqual([0, 5, 15, 35]);
});

test('nothing is asked for while nothing is missing', () => {
  const run = new RunModel(new SlowPage());

  run.receive(read('band_chart'));

  expect(run.wantsPull()).toBe(false);
});

test('who asks for the board gets the next answer', async () => {
  const run = new RunModel(new SlowPage());
  const answer = run.next('board');

  run.receive(read('running'));
  run.receive(read('board_answer'));

  expect(await answer).toMatchObject({ url: expect.stringContaining('scalar') });
});
