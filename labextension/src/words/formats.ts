/** Numbers as they are read on the screen, the same in both languages; and what of a rank is measured. */
import type { Progress, RankView } from '../protocol/run';

/** Return the parts that there are, with dots between them. */
export function dotted(...parts: readonly (string | false | null | undefined)[]): string {
  return parts.filter(Boolean).join(' · ');
}

/** Return `0:47`, `12:05`, `3:02:10` */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (part: number): string => String(part).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Return `312 MB`, `1.4 GB`; a kilobyte has a thousand bytes */
export function bytes(count: number): string {
  return count >= 1e9 ? `${(count / 1e9).toFixed(1)} GB` : `${Math.round(count / 1e6)} MB`;
}

/** Return the used amount in the unit of the total where that is precise enough: `["11.2", "80 GB"]`, `["11 MB", "25
 * GB"]` */
export function bytesOf(count: number, total: number): [string, string] {
  const whole = total >= 1e9 ? `${Math.round(total / 1e9)} GB` : `${Math.round(total / 1e6)} MB`;
  const alike = total >= 1e9 === count >= 1e9;
  return [alike ? bytes(count).split(' ')[0]! : bytes(count), whole];
}

export function percent(value: number): string {
  return `${Math.round(value)} %`;
}

/** Return the percentage of a run that is done, `47 %`; empty where it is unknown. */
export function doneText(progress: Progress | null): string {
  return progress ? percent(Math.floor(100 * progress.fraction)) : '';
}

/** Return the steps a second: `7.9`, `0.31`, `126` */
export function rate(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value >= 1 ? value.toFixed(1) : value.toPrecision(2);
}

/** Return a metric, short: `0.0612`, `1.28e-4`, `12.7`, `1,204` */
export function figure(number: number): string {
  const size = Math.abs(number);
  if (size === 0 || !Number.isFinite(number)) {
    return String(number);
  }
  if (size < 1e-3 || size >= 1e7) {
    return Number(number.toPrecision(3)).toExponential().replace('e+', 'e');
  }
  return size >= 1000 ? Math.round(number).toLocaleString('en') : String(Number(number.toPrecision(3)));
}

/** Return a tick of an axis whose ticks are `apart`: as many decimals as tell them apart. */
export function tick(number: number, apart: number): string {
  const decimals = /\.(\d+)$/.exec(String(apart))?.[1]?.length ?? 0;
  if (Math.abs(number) >= 1e7 || apart < 1e-3) {
    return figure(number);
  }
  return number.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** Return the GPU memory of a rank where it has a GPU, else its main memory; null when unknown. */
export function memory(rank: RankView): { used: number; total: number | null } | null {
  if (rank.gpuMemory !== null) {
    return { used: rank.gpuMemory, total: rank.gpuMemoryTotal };
  }
  return rank.memory === null ? null : { used: rank.memory, total: rank.memoryTotal };
}

/** Return the percentage of the GPU where it is known, else of one core. */
export function utilisation(rank: RankView): number | null {
  return rank.gpu ?? rank.cpu;
}

/** Return a step in ms: the rank's own time, and what it waited for others (`wait` in percent). Null when unknown. */
export function stepParts({
  rate,
  wait,
}: Pick<RankView, 'rate' | 'wait'>): { own: number; waiting: number } | null {
  if (!rate || wait === null) {
    return null;
  }
  const waiting = (10 * wait) / rate;
  return { own: 1000 / rate - waiting, waiting };
}

/** Return the milliseconds: `12,345`, `118`, `8.4`, `0.3`, `0` */
export function milliseconds(value: number): string {
  return value >= 10 ? Math.round(value).toLocaleString('en') : value < 0.05 ? '0' : value.toFixed(1);
}

/** Return `CPU`, `GPU 1` */
export function device(name: string): string {
  return name.replace(/^(cpu|gpu)\b/, word => word.toUpperCase());
}

/** Return the percentage that counts as full: all of a GPU, or of the most cores that any rank uses. */
export function fullOf(ranks: readonly RankView[]): number {
  const most = Math.max(...ranks.map(rank => utilisation(rank) ?? 0));
  return Math.max(100, Math.ceil(most / 100) * 100);
}

const STEPS = 5;

/** Return 0…4, null when unknown. */
export function stepOf(value: number | null, full: number): number | null {
  return value === null ? null : Math.min(STEPS - 1, Math.floor((STEPS * value) / full));
}

interface NodeRanks {
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
