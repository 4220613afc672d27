/** The options of uPlot for a chart: lines, bands, axes, names at the ends of lines, values under the pointer. */
import uPlot from 'uplot';

import { type Axis, bandText, nearestRow, rowAt } from '../../model/charts';
import { clock, figure, tick } from '../../words/formats';
import { element, rankColour } from '../../page/nodes';
import type { Chart } from '../../protocol/charts';
import { words } from '../../words/panel';

const PLOT_HEIGHT = 140;
const LABEL_ROOM = 44;
const LABEL_HEIGHT = 12;
const LABEL_WIDTH = 24;
const NAMED = 8;
/** pixels between two names at the ends of lines, where they are many */
const NAME_EVERY = 14;
/** dashes of the lines beyond the eighth, whose colours repeat */
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const TOLD = 12;
/** Allowed distances of ticks: whole steps; seconds, minutes and hours as clocks divide them. */
const STEP_TICKS = Array.from({ length: 10 }, (_, power) =>
  [1, 2, 5].map(digit => digit * 10 ** power),
).flat();
const SECOND_TICKS = [1, 2, 5, 10, 15, 30]
  .flatMap(count => [count, 60 * count])
  .concat([1, 2, 4, 8, 24, 48, 96, 240].map(hours => 3600 * hours));
SECOND_TICKS.sort((a, b) => a - b);

/** Colours and letters that the canvas takes from the page. */
interface Palette {
  brand: string;
  brandText: string;
  text: string;
  quiet: string;
  line: string;
  ranks: readonly string[];
  font: string;
}

export function paletteOf(element: Element): Palette {
  const probe = element.appendChild(document.createElement('i'));
  const style = getComputedStyle(probe);
  const token = (name: string): string => {
    probe.style.color = `var(${name})`;
    return style.color;
  };
  const palette = {
    brand: token('--nb-brand'),
    brandText: token('--nb-brand-text'),
    text: token('--nb-fg'),
    quiet: token('--nb-fg2'),
    line: token('--nb-border'),
    ranks: Array.from({ length: 8 }, (_, rank) => token(`--nb-r${rank}`)),
    font: style.fontFamily,
  };
  probe.remove();
  return palette;
}

/** Several runs over each other: their names, in full and in a letter or two, and the height of a plot in pixels. */
export interface RunLines {
  names: readonly string[];
  letters?: readonly string[];
  height?: number;
}

export interface PlotChoice {
  chart: Chart;
  axis: Axis;
  log: boolean;
  /** runs whose lines these are, in the place of ranks */
  runs?: RunLines | undefined;
  palette: Palette;
  width: number;
}

export function plotOptions(choice: PlotChoice): uPlot.Options {
  const { chart, axis, log, palette, width } = choice;
  const font = `11px ${palette.font}`;
  const ticks = { show: false };
  const x = axis === 'step' ? (at: number): string => at.toLocaleString('en') : clock;
  return {
    width,
    height: choice.runs?.height ?? PLOT_HEIGHT,
    padding: [8, LABEL_ROOM, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: true, y: false, dist: 8 },
      points: { size: 6 },
      dataIdx: (plot, series, row) => (series === 0 ? row : rowAt(plot.data[series]!, row)),
    },
    scales: {
      x: { time: false },
      y: log ? { distr: 3, log: 10 } : { range: roomy },
    },
    axes: [
      {
        font,
        stroke: palette.quiet,
        ticks,
        grid: { show: false },
        size: 24,
        gap: 4,
        space: 64,
        incrs: axis === 'step' ? STEP_TICKS : SECOND_TICKS,
        values: (_plot, splits) => splits.map(split => x(split)),
      },
      {
        font,
        stroke: palette.quiet,
        ticks,
        grid: { stroke: palette.line, width: 1, ...(log && { filter: decades }) },
        size: 48,
        gap: 6,
        space: 26,
        values: (_plot, splits, _axis, _space, apart) =>
          // of a logarithmic axis some have no room for a name
          splits.map(split => (split === null ? null : log ? figure(split) : tick(split, apart))),
      },
    ],
    series: [{}, ...seriesOf(choice)],
    bands:
      chart.kind === 'band'
        ? [{ series: [3, 2], fill: `color-mix(in srgb, ${palette.brand} 32%, transparent)` }]
        : [],
    hooks: {
      draw: [plot => nameAxis(plot, choice), plot => nameLines(plot, choice)],
      setCursor: [plot => tell(plot, choice)],
    },
  };
}

function seriesOf(choice: PlotChoice): uPlot.Series[] {
  const { chart, palette, runs } = choice;
  // a line needs two values; one alone is a point
  const points: uPlot.Series.Points = {
    size: 5,
    show: (plot, series) => [...plot.data[series]!].filter(value => typeof value === 'number').length === 1,
  };
  const line = { spanGaps: true, points };
  if (chart.kind === 'band') {
    const edge = { spanGaps: true, points: { show: false }, stroke: 'transparent', width: 0 };
    return [{ ...line, stroke: palette.brand, width: 1.5 }, edge, edge];
  }
  return chart.ranks.map(rank => ({
    ...line,
    stroke: palette.ranks[rank % 8]!,
    width: 1.5,
    dash: runs ? DASHES[Math.floor(rank / 8) % DASHES.length]! : [],
  }));
}

const decades: uPlot.Axis.Filter = (_plot, splits) =>
  splits.map(split => (Math.log10(split) % 1 ? null : split));

/** Return a range a little wider than the values; a flat line is in its middle, not on its edge. */
function roomy(_plot: uPlot, least: number | null, most: number | null): uPlot.Range.MinMax {
  if (least === null || most === null) {
    return [0, 1];
  }
  const flat = least === most;
  return uPlot.rangeNum(least, most, flat ? 0.5 : 0.08, true);
}

/** Draw the name of the x axis into the corner that the labels of both axes leave free. */
function nameAxis({ ctx, bbox }: uPlot, { axis, palette }: PlotChoice): void {
  const ratio = uPlot.pxRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px ${palette.font}`;
  ctx.fillStyle = palette.quiet;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'top';
  ctx.fillText(words[axis], bbox.left - 20 * ratio, bbox.top + bbox.height + 4 * ratio);
  ctx.restore();
}

/** Draw `mean`, the number of each rank or the letter of each run behind its last point; names that would meet move
 * apart. */
function nameLines(plot: uPlot, { chart, palette, runs }: PlotChoice): void {
  const { letters, height } = runs ?? {};
  const names =
    chart.kind === 'band'
      ? [{ text: chart.ranks.length > 1 ? words.mean : '', colour: palette.brandText, series: 1 }]
      : chart.ranks.map((rank, at) => ({
          text: letters?.[rank] ?? String(rank),
          colour: palette.ranks[rank % 8]!,
          series: at + 1,
        }));
  if (names.length > (height ? height / NAME_EVERY : NAMED)) {
    return;
  }
  const ratio = uPlot.pxRatio;
  const places = names
    .flatMap(name => {
      const values = plot.data[name.series]!;
      const row = nearestRow(values, values.length - 1);
      const end = values[row];
      if (typeof end !== 'number') {
        return [];
      }
      const left = plot.valToPos(plot.data[0][row]!, 'x', true);
      return [{ ...name, left, top: plot.valToPos(end, 'y', true) }];
    })
    .sort((a, b) => a.top - b.top);
  for (const [at, end] of places.entries()) {
    const above = places.slice(0, at).filter(({ left }) => Math.abs(left - end.left) < LABEL_WIDTH * ratio);
    end.top = Math.max(end.top, ...above.map(({ top }) => top + LABEL_HEIGHT * ratio));
  }
  const { ctx, bbox } = plot;
  const over = Math.max(...places.map(({ top }) => top)) - (bbox.top + bbox.height);
  ctx.save();
  ctx.font = `700 ${11 * ratio}px ${palette.font}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (const end of places) {
    ctx.fillStyle = end.colour;
    ctx.fillText(end.text, end.left + 4 * ratio, end.top - Math.max(0, over));
  }
  ctx.restore();
}

/** Draw the values at the pointer into a box beside it. */
function tell(plot: uPlot, choice: PlotChoice): void {
  const box =
    plot.over.querySelector<HTMLElement>('.nbdist-values') ??
    plot.over.appendChild(element('div', 'nbdist-values', ''));
  const { idx, left = 0 } = plot.cursor;
  if (typeof idx !== 'number' || left < 0) {
    box.hidden = true;
    return;
  }
  const { axis, chart } = choice;
  const { names, letters } = choice.runs ?? {};
  const place = (row: number): string =>
    axis === 'step' ? `${words.step} ${plot.data[0][row]!.toLocaleString('en')}` : clock(plot.data[0][row]!);
  const at = (series: number): { value: number; row: number } | null => {
    const row = rowAt(plot.data[series]!, idx);
    const value = row === null ? null : plot.data[series]![row];
    return typeof value === 'number' ? { value, row: row! } : null;
  };
  const bandRows = (): HTMLElement[] => {
    const band = [1, 2, 3].map(series => at(series)?.value ?? null);
    return band[0] === null ? [] : [element('span', '', bandText(band))];
  };
  const lineRows = (): HTMLElement[] =>
    chart.ranks.flatMap((rank, line) => {
      const point = at(line + 1);
      // lines need not have a value at the same steps
      const elsewhere = point && point.row !== idx && names ? place(point.row) : '';
      const badge = letters?.[rank] ?? String(rank);
      return point ? [lineRow(rank, badge, names?.[rank] ?? '', figure(point.value), elsewhere)] : [];
    });
  const rows = chart.kind === 'band' ? bandRows() : lineRows();
  if (rows.length > TOLD) {
    rows.splice(TOLD, Infinity, element('span', '', `… ${rows.length - TOLD}`));
  }
  box.replaceChildren(element('b', '', place(idx)), ...rows);
  box.hidden = rows.length === 0;
  const room = plot.over.clientWidth;
  const beside = left < room / 2 ? left + 12 : left - 12 - box.offsetWidth;
  box.style.left = `${Math.max(0, Math.min(beside, room - box.offsetWidth))}px`;
}

function lineRow(rank: number, badge: string, name: string, value: string, elsewhere: string): HTMLElement {
  const row = element('span', '', '');
  row.style.setProperty('--nb-c', rankColour(rank));
  const parts = [name && element('span', 'nbdist-values-name', name), value, elsewhere && ` (${elsewhere})`];
  row.append(element('i', '', badge), ...parts.filter(Boolean));
  return row;
}
