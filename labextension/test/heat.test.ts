import { byNode, fullOf, stepOf } from '../src/words/formats';
import { decode, type RankView, type Update } from '../src/protocol/run';
import { sample } from './samples';

const RANKS = (decode(sample('ranks64').content) as Update).view!.ranks;

function used(...percents: (number | null)[]): RankView[] {
  return percents.map((gpu, rank) => ({ ...RANKS[0]!, rank, node: rank >> 1, gpu, cpu: null }));
}

test('ranks stand by their node', () => {
  expect(byNode(RANKS).map(({ node, ranks }) => [node, ranks.length])).toEqual(
    Array.from({ length: 8 }, (_, node) => [node, 8]),
  );
});

test.each([
  [0, 0],
  [19.9, 0],
  [20, 1],
  [99, 4],
  [100, 4],
  [null, null],
])('%p percent has the step %p', (value, step) => {
  expect(stepOf(value, 100)).toBe(step);
});

test('full is all of a GPU, or of some cores', () => {
  expect(fullOf(RANKS)).toBe(100);
  expect(fullOf(used(230))).toBe(300);
  expect(fullOf(used(null))).toBe(100);
});
