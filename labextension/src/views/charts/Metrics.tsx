/** The curves: what the cell logged, then what the machine measured. */
import { type ReactElement, type RefObject, useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';

import { axisOf, canBeLog, keyOf, latest, plotColumns, logByDefault, positive } from '../../model/charts';
import { paletteOf, type PlotChoice, plotOptions, type RunLines } from './plot';
import { figure } from '../../words/formats';
import type { Chart } from '../../protocol/charts';
import { words } from '../../words/panel';
import { Button } from '../Marks';
import { useTheme, useThrottled } from '../hooks';

const REDRAW = 1000;

interface MetricsProps {
  charts: ReadonlyMap<string, Chart>;
  /** number of metrics without a chart */
  leftOut?: number;
  /** runs whose lines these are, in the place of ranks */
  runs?: RunLines;
  onBoard: (() => void) | null;
}

export function Metrics(props: MetricsProps): ReactElement {
  const { onBoard, leftOut = 0 } = props;
  const throttled = useThrottled(props.charts, REDRAW);
  // several runs have other curves where the reader chose others
  const charts = props.runs ? props.charts : throttled;
  const ordered = useMemo(() => {
    const all = [...charts.values()];
    return [...metricsOf(charts), ...all.filter(chart => chart.group === 'system')];
  }, [charts]);
  const logged = ordered.some(chart => chart.group === 'metric');
  return (
    <div className="nbdist-metrics">
      {onBoard && (
        <div className="nbdist-row nbdist-tools">
          <Button icon="out" label={words.openBoard} onClick={onBoard} />
        </div>
      )}
      {!logged && (
        <p className="nbdist-empty">
          {words.noMetrics} <code>nbdist.log(step=…, loss=…)</code> {words.noMetricsThen}
        </p>
      )}
      {leftOut > 0 && <div className="nbdist-note nbdist-calm">{words.leftOut(leftOut)}</div>}
      <div className="nbdist-charts">
        {ordered.map(chart => (
          <ChartView key={keyOf(chart)} chart={chart} runs={props.runs} />
        ))}
      </div>
    </div>
  );
}

/** figures of a run that is one line */
const FIGURES = 3;

/** Return `loss 0.05 · accuracy 0.98`: where the first metrics stand at last, the mean of the ranks. */
export function figuresText(charts: ReadonlyMap<string, Chart>): string {
  return metricsOf(charts)
    .slice(0, FIGURES)
    .map(chart => `${chart.tag} ${figure(lastMean(chart))}`)
    .join(' · ');
}

/** Return the last step of any metric; null where none has steps. */
export function lastStep(charts: ReadonlyMap<string, Chart>): number | null {
  const steps = metricsOf(charts).flatMap(({ columns }) => columns[0]!.at(-1) ?? []);
  return steps.some(Number.isFinite) ? Math.max(...steps.filter(Number.isFinite)) : null;
}

function lastMean({ kind, last }: Chart): number {
  const known = (kind === 'band' ? last.slice(0, 1) : last).filter(value => !Number.isNaN(value));
  return known.reduce((sum, value) => sum + value, 0) / known.length;
}

function metricsOf(charts: ReadonlyMap<string, Chart>): readonly Chart[] {
  return [...charts.values()].filter(chart => chart.group === 'metric');
}

/** Draw the first metrics in a row. */
export function FirstMetrics({
  charts,
  most,
}: {
  charts: MetricsProps['charts'];
  most: number;
}): ReactElement | null {
  const first = useMemo(() => metricsOf(charts).slice(0, most), [charts, most]);
  if (first.length === 0) {
    return null;
  }
  return (
    <div className="nbdist-curves" role="group" aria-label={words.metrics}>
      {first.map(chart => (
        <ChartView key={keyOf(chart)} chart={chart} />
      ))}
    </div>
  );
}

interface ChartProps {
  chart: Chart;
  runs?: RunLines | undefined;
}

/** Draw a metric: a chart, or of a single point its number. */
function ChartView(props: ChartProps): ReactElement {
  const { chart, runs } = props;
  if (runs || chart.group !== 'metric' || chart.columns[0]!.length > 1) {
    return <Curves {...props} />;
  }
  return (
    <div className="nbdist-chart nbdist-row nbdist-chart-head nbdist-figure">
      <b className="nbdist-cut" title={chart.tag}>
        {chart.tag}
      </b>
      <span className="nbdist-cut">{latest(chart)}</span>
    </div>
  );
}

function Curves(props: ChartProps): ReactElement {
  const { chart, runs } = props;
  const axis = axisOf(chart);
  const lines = useMemo(() => plotColumns(chart, axis), [chart, axis]);
  const [chosen, setChosen] = useState<boolean | null>(null);
  const possible = useMemo(() => canBeLog(lines), [lines]);
  const log = possible && (chosen ?? logByDefault(lines));
  const drawn = useMemo(() => (log ? positive(lines) : lines), [lines, log]);
  const place = usePlot({ chart, axis, log, runs }, drawn);
  const banded = chart.kind === 'band' && chart.ranks.length > 1;
  const name = (chart.group === 'system' && words.tags[chart.tag]) || chart.tag;
  const summary = latest(chart);
  return (
    <div className="nbdist-chart">
      <div className="nbdist-row nbdist-chart-head">
        <b className="nbdist-cut" title={name}>
          {chart.unit ? name + words.comma + chart.unit : name}
        </b>
        <span className="nbdist-quiet nbdist-cut">{summary}</span>
        <span className="nbdist-space" />
        {possible && (
          <button
            type="button"
            className="nbdist-button nbdist-tiny"
            aria-pressed={log}
            aria-label={words.named(words.logScale, name)}
            title={words.logScale}
            onClick={() => setChosen(!log)}
          >
            {words.log}
          </button>
        )}
      </div>
      <div
        className="nbdist-plot"
        style={{ height: runs?.height }}
        ref={place}
        role="img"
        aria-label={words.named(name, summary)}
      />
      {banded && (
        <div className="nbdist-row nbdist-fine nbdist-chart-key">
          <span>{words.meanOf(chart.ranks.length)}</span>
          <span data-key="band">{words.lowestToHighest}</span>
        </div>
      )}
    </div>
  );
}

/** Keep a plot of `lines` in the element that gets the ref. */
function usePlot(
  choice: Omit<PlotChoice, 'palette' | 'width'>,
  lines: ReturnType<typeof plotColumns>,
): RefObject<HTMLDivElement | null> {
  const { themeVersion } = useTheme();
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latestProps = useRef({ choice, lines });
  useEffect(() => {
    latestProps.current = { choice, lines };
  });
  // other lines, axes or colours need another plot; other values do not
  const { chart, ...others } = choice;
  const curves = chart.kind === 'band' ? chart.ranks.length > 1 : chart.ranks;
  const shape = JSON.stringify([chart.kind, curves, others]);
  useEffect(() => {
    const element = place.current!;
    const { choice, lines } = latestProps.current;
    const [palette, width] = [paletteOf(element), element.clientWidth];
    const options = plotOptions({ ...choice, palette, width });
    const made = new uPlot(options, lines as uPlot.AlignedData, element);
    plot.current = made;
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width > 0 && width !== made.width) {
        made.setSize({ width, height: options.height });
      }
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, themeVersion]);
  useEffect(() => {
    const made = plot.current;
    if (made) {
      // what the reader looks at more closely stays where it is
      const zoomed = isZoomed(made);
      made.setData(lines as uPlot.AlignedData, !zoomed);
      if (zoomed) {
        made.redraw();
      }
    }
  }, [lines]);
  return place;
}

/** Return true when the reader has zoomed into a part; a double click shows all again. */
function isZoomed({ data: [x], scales }: uPlot): boolean {
  const { min, max } = scales['x']!;
  // neither is a number before the first drawing
  const drawn = typeof min === 'number' && typeof max === 'number';
  return drawn && x.length > 1 && (min > x[0]! || max < x.at(-1)!);
}
