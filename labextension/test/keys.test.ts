import { actionOf, moved } from '../src/views/keys';

const key = (name: string, over: object = {}): Parameters<typeof actionOf>[0] => ({
  key: name,
  ctrlKey: false,
  altKey: false,
  metaKey: false,
  target: document.createElement('button'),
  ...over,
});

test.each([
  ['/', 'search'],
  ['f', 'follow'],
  ['F', 'follow'],
  ['W', 'wrap'],
  ['a', 'all'],
  ['M', 'metrics'],
  ['c', 'cell'],
  ['E', 'first error'],
  ['Escape', 'leave'],
])('%s means %s', (name, kind) => {
  expect(actionOf(key(name))).toBe(kind);
});

test('a digit is a rank', () => {
  expect(actionOf(key('3'))).toBe(3);
});

test.each(['x', 'Enter', 'ArrowDown', 'F5', 'Tab'])('%s is not for the panel', name => {
  expect(actionOf(key(name))).toBeNull();
});

test.each(['ctrlKey', 'altKey', 'metaKey'])('a chord with %s is not for the panel', held => {
  expect(actionOf(key('c', { [held]: true }))).toBeNull();
});

test.each(['input', 'textarea', 'select'])('what is typed into %s is text', tag => {
  expect(actionOf(key('f', { target: document.createElement(tag) }))).toBeNull();
});

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
