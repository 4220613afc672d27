import { jest } from '@jest/globals';

import { takePlaces } from '../src/panel/places';

const find = () => [...document.querySelectorAll<HTMLElement>('.place')];

function draw(el: HTMLElement) {
  el.textContent = 'panel';
  return () => (el.textContent = '');
}

afterEach(() => jest.useRealTimers());

test('the panel takes the place of what is kept, and leaves it as it was', () => {
  document.body.innerHTML = '<div class="place"><style></style><p>summary</p></div>';

  const leave = takePlaces(find, draw);

  expect(document.body.textContent).toBe('summarypanel');
  expect(document.querySelector('p')!.hidden).toBe(true);

  leave();

  expect(document.body.textContent).toBe('summary');
  expect(document.querySelector('p')!.hidden).toBe(false);
});

test('a place that comes later is found, one that has gone is left', () => {
  jest.useFakeTimers();
  document.body.innerHTML = '<div class="place"><p>first</p></div>';
  const ended = jest.fn();
  const leave = takePlaces(find, () => ended as () => void);

  document.body.innerHTML = '<div class="place"><p>second</p></div>';
  jest.advanceTimersByTime(1000);

  expect(document.querySelector('p')!.hidden).toBe(true);
  expect(ended).toHaveBeenCalledTimes(1);
  leave();
  expect(ended).toHaveBeenCalledTimes(2);
});
