import { expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';

const css = readFileSync('src/styles/tokens.css', 'utf8');

function colours(theme: 'light' | 'dark'): string[] {
  const rules = [...css.matchAll(/--nb-ansi-(\d+): light-dark\((#\w+), (#\w+)\);/g)];
  expect(rules.map(([, number]) => Number(number))).toEqual(Array.from({ length: 16 }, (_, at) => at));
  return rules.map(([, , light, dark]) => (theme === 'light' ? light! : dark!));
}

function luminance(hex: string): number {
  const digits =
    hex.length === 4 ? [...hex.slice(1)].map(digit => digit + digit) : hex.slice(1).match(/../g)!;
  const [r, g, b] = digits
    .map(pair => parseInt(pair, 16) / 255)
    .map(value => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light! + 0.05) / (dark! + 0.05);
}

test.each([
  ['light', '#ffffff'],
  ['light', '#f6f6f6'],
  ['dark', '#212121'],
  ['dark', '#292929'],
] as const)('the 16 colours can be read in the %s theme on %s', (theme, background) => {
  for (const colour of colours(theme)) {
    expect([colour, contrast(colour, background) >= 4.5]).toEqual([colour, true]);
  }
});
