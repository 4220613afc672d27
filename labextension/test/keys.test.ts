import { moved } from '../src/views/keys';

test.each([
  ['ArrowRight', 3, 0],
  ['ArrowDown', 1, 2],
  ['ArrowLeft', 0, 3],
  ['ArrowUp', 2, 1],
  ['Home', 2, 0],
  ['End', 0, 3],
])('%s leads from %p to %p of four', (name, from, to) => {
  expect(moved(name, from, 4)).toBe(to);
});

test('another key leads nowhere', () => {
  expect(moved('Enter', 1, 4)).toBeNull();
});
