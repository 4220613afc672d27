/** The curves: what the cell logged, then what the machine measured. */
import { useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import uPlot from 'uplot';
import {
  axisOf,
  canBeLog,
  inFittingUnit,
  latest,
  linesOf,
  logByDefault,
  positive,
  type Axis,
} from '../chart_data';
import { paletteOf, PLOT_HEIGHT, plotOptions } from '../chart_plot';
import { keyOf } from '../model';
import type { Chart } from '../protocol';
import type { Words } from '../words';
import { useUnhurried } from './clocks';
import { Icon } from './Marks';

const REDRAW = 1000;

interface MetricsProps {
  charts: ReadonlyMap<string, Chart>;
  ranks: number;
  /** another number when the page's colours changed */
  look: number;
  words: Words;
  onBoard: () => void;
}

export function Metrics(props: MetricsProps): ReactElement {
  const { words, look, onBoard } = props;
  const charts = useUnhurried(props.charts, REDRAW);
  const [axis, setAxis] = useState<Axis>('step');
  const ordered = useMemo(() => {
    const all = [...charts.values()];
    return [
      ...all.filter(chart => chart.group === 'metric'),
      ...all.filter(chart => chart.group === 'system'),
    ];
  }, [charts]);
  const logged = ordered.some(chart => chart.group === 'metric');
  const banded = ordered.some(chart => chart.kind === 'band' && chart.ranks.length > 1);
  return (
    <div className="nbdist-metrics">
      <div className="nbdist-tools" role="toolbar" aria-label={words.metrics}>
        <span className="nbdist-segments" role="group" aria-label={words.axis}>
          {(['step', 'time'] as const).map(each => (
            <button
              type="button"
              key={each}
              className="nbdist-button"
              aria-pressed={each === axis}
              onClick={() => setAxis(each)}
            >
              {words[each]}
            </button>
          ))}
        </span>
        <span className="nbdist-quiet nbdist-cut">{banded ? words.band(props.ranks) : ''}</span>
        <span className="nbdist-space" />
        <button type="button" className="nbdist-button" onClick={onBoard}>
          <Icon name="out" />
          {words.openBoard}
        </button>
      </div>
      {!logged && (
        <p className="nbdist-empty">
          {words.noMetrics} <code>nbdist.log(step=…, loss=…)</code> {words.noMetricsThen}
        </p>
      )}
      <div className="nbdist-charts">
        {ordered.map(chart => (
          <ChartView key={keyOf(chart)} chart={chart} wanted={axis} look={look} words={words} />
        ))}
      </div>
    </div>
  );
}

interface ChartProps {
  chart: Chart;
  wanted: Axis;
  look: number;
  words: Words;
}

export function ChartView({ chart: measured, wanted, look, words }: ChartProps): ReactElement {
  const chart = useMemo(() => inFittingUnit(measured), [measured]);
  const axis = axisOf(chart, wanted);
  const lines = useMemo(() => linesOf(chart, axis), [chart, axis]);
  const [chosen, setChosen] = useState<boolean | null>(null);
  const possible = useMemo(() => canBeLog(lines), [lines]);
  const log = possible && (chosen ?? logByDefault(lines));
  const drawn = useMemo(() => (log ? positive(lines) : lines), [lines, log]);
  const name = (chart.group === 'system' && words.tags[chart.tag]) || chart.tag;
  const summary = latest(chart, lines, words);
  return (
    <div className="nbdist-chart">
      <div className="nbdist-chart-head">
        <b title={name}>{chart.unit ? `${name}, ${chart.unit}` : name}</b>
        <span className="nbdist-quiet nbdist-cut">{summary}</span>
        <span className="nbdist-space" />
        {possible && (
          <button
            type="button"
            className="nbdist-button nbdist-tiny"
            aria-pressed={log}
            aria-label={`${words.logScale}: ${name}`}
            title={words.logScale}
            onClick={() => setChosen(!log)}
          >
            {words.log}
          </button>
        )}
      </div>
      <Plot
        chart={chart}
        axis={axis}
        log={log}
        look={look}
        lines={drawn}
        words={words}
        name={`${name}: ${summary}`}
      />
    </div>
  );
}

interface PlotProps {
  chart: Chart;
  axis: Axis;
  log: boolean;
  look: number;
  lines: ReturnType<typeof linesOf>;
  words: Words;
  name: string;
}

function Plot({ chart, axis, log, look, lines, words, name }: PlotProps): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latestProps = useRef({ chart, lines });
  useEffect(() => {
    latestProps.current = { chart, lines };
  });
  // other lines, axes or colours need another plot; other values do not
  const shape = `${chart.kind}/${chart.ranks.join()}`;
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(
      plotOptions({
        chart: latestProps.current.chart,
        axis,
        log,
        words,
        palette: paletteOf(element),
        width: element.clientWidth,
      }),
      latestProps.current.lines as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry!.contentRect.width);
      if (width > 0 && width !== made.width) {
        made.setSize({ width, height: PLOT_HEIGHT });
      }
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, axis, log, look, words]);
  useEffect(() => {
    plot.current?.setData(lines as uPlot.AlignedData);
  }, [lines]);
  return <div className="nbdist-plot" ref={place} role="img" aria-label={name} />;
}
