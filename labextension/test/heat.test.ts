import { byNode, fullOf, measured, spread, stepOf } from '../src/words/formats';
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

test('full is the whole memory, the fastest rank, all of a GPU or of some cores', () => {
  expect(fullOf(RANKS, 'memory')).toBe(80e9);
  expect(fullOf(RANKS, 'rate')).toBe(7.9);
  expect(fullOf(RANKS, 'utilisation')).toBe(100);
  expect(fullOf(used(230), 'utilisation')).toBe(300);
});

test('a node that is lower than the others is named', () => {
  expect(spread(used(80, 82, 30, 34, 81, 83), 'utilisation')).toEqual({ median: 80.5, node: 1, lowest: 32 });
});

test('nodes that are alike are not', () => {
  expect(spread(used(80, 80, 80, 80), 'utilisation')).toMatchObject({ median: 80, node: null });
});

test('what nobody measured has no middle', () => {
  expect(spread(used(null, null), 'utilisation')).toBeNull();
  expect(measured(used(null)[0]!, 'utilisation')).toBeNull();
});
