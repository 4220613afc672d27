import { jest } from '@jest/globals';

import { takePlaces } from '../src/panel/places';

function draw(el: HTMLElement) {
  el.append('panel');
  return () => (el.lastChild as Text).remove();
}

const place = (content: string): string => `<div data-nbdist-panel="p1">${content}</div>`;

test('the panel takes the place of what is kept, and leaves it as it was', () => {
  document.body.innerHTML = place('<style></style><p>summary</p>');

  const leave = takePlaces('p1', draw);

  expect(document.body.textContent).toBe('summarypanel');
  expect(document.querySelector('p')!.hidden).toBe(true);

  leave();

  expect(document.body.textContent).toBe('summary');
  expect(document.querySelector('p')!.hidden).toBe(false);
});

test('a place that comes later is found, one that has gone is left, one of another panel is let be', async () => {
  document.body.innerHTML = place('<p>first</p>');
  const ended = jest.fn();
  const leave = takePlaces('p1', () => ended as () => void);

  document.body.innerHTML = `${place('<p>second</p>')}<div data-nbdist-panel="p2"><b></b></div>`;
  await new Promise(requestAnimationFrame);

  expect(document.querySelector('p')!.hidden).toBe(true);
  expect(document.querySelector('b')!.hidden).toBe(false);
  expect(ended).toHaveBeenCalledTimes(1);
  leave();
  expect(ended).toHaveBeenCalledTimes(2);
});
