/** Which of five steps of colour a rank has in the grid, and what the grid says in words. Pure. */
import { bytes, bytesOf, median, memory, percent, rate, utilisation } from './numbers';
import type { RankView } from './protocol';

export type Measure = 'utilisation' | 'memory' | 'rate';
export const MEASURES: readonly Measure[] = ['utilisation', 'memory', 'rate'];
export const STEPS = 5;

export function measured(rank: RankView, measure: Measure): number | null {
  switch (measure) {
    case 'utilisation':
      return utilisation(rank);
    case 'memory':
      return memory(rank)?.used ?? null;
    case 'rate':
      return rank.rate;
  }
}

export function measureText(value: number, measure: Measure): string {
  return { utilisation: percent, memory: bytes, rate }[measure](value);
}

/** What counts as full: all of a GPU or of the memory, where that is known, else the most of any rank. */
export function fullOf(ranks: readonly RankView[], measure: Measure): number {
  const most = Math.max(0, ...ranks.map(rank => measured(rank, measure) ?? 0));
  if (measure === 'utilisation') {
    return Math.max(100, Math.ceil(most / 100) * 100);
  }
  const whole = measure === 'memory' ? Math.max(0, ...ranks.map(rank => memory(rank)?.total ?? 0)) : 0;
  return whole || most || 1;
}

export function fullText(full: number, measure: Measure): string {
  return measure === 'memory' ? bytesOf(full, full)[1] : measureText(full, measure);
}

/** 0…4, null when unknown. */
export function stepOf(value: number | null, full: number): number | null {
  return value === null ? null : Math.min(STEPS - 1, Math.floor((STEPS * value) / full));
}

export interface NodeRanks {
  node: number;
  ranks: readonly RankView[];
}

export function byNode(ranks: readonly RankView[]): readonly NodeRanks[] {
  const nodes = new Map<number, RankView[]>();
  for (const rank of ranks) {
    nodes.set(rank.node, [...(nodes.get(rank.node) ?? []), rank]);
  }
  return [...nodes].map(([node, members]) => ({ node, ranks: members }));
}

/** The middle of all ranks, and the node that is lowest where there are several and they differ. */
export function spread(
  ranks: readonly RankView[],
  measure: Measure,
): { median: number; node: number | null; lowest: number } | null {
  const known = (of: readonly RankView[]): number[] =>
    of.map(rank => measured(rank, measure)).filter(value => value !== null);
  const middle = median(known(ranks));
  if (middle === null) {
    return null;
  }
  const nodes = byNode(ranks).flatMap(({ node, ranks: members }) => {
    const value = median(known(members));
    return value === null ? [] : [{ node, value }];
  });
  const lowest = nodes.reduce((low, each) => (each.value < low.value ? each : low));
  const differs = nodes.length > 1 && measureText(lowest.value, measure) !== measureText(middle, measure);
  return { median: middle, node: differs ? lowest.node : null, lowest: lowest.value };
}
