/** One program on several numbers of ranks: the sentence, a table, and the speed-up beside the ideal. */
import { type ReactElement, useMemo } from 'react';

import { type SweepNews } from '../../model/comparison';
import type { Chart } from '../../protocol/charts';
import { ChartView } from '../charts/Metrics';
import { Mark } from '../Marks';

type Scale = NonNullable<SweepNews['scale']>;

interface ScaleProps {
  scale: Scale;
  runs: SweepNews['runs'];
  height: number;
  onOpen: (runId: string, from: Element) => void;
}

export function ScaleView({ scale, runs, height, onOpen }: ScaleProps): ReactElement {
  const { table, names, sentence } = scale;
  const chart = useMemo(() => chartOf(scale), [scale]);
  const cells = (row: readonly string[]) => row.slice(1).map((cell, at) => <td key={at}>{cell || '–'}</td>);
  return (
    <>
      {sentence && <p className="nbdist-note nbdist-calm">{sentence}</p>}
      <div className="nbdist-table-frame nbdist-scale">
        <table className="nbdist-table">
          <thead>
            <tr>
              {table[0]?.map(title => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {runs.map(({ runId, label, state }, run) => (
              <tr key={runId}>
                <th scope="row">
                  <button
                    type="button"
                    className="nbdist-link nbdist-row"
                    title={label}
                    onClick={event => onOpen(runId, event.currentTarget)}
                  >
                    <Mark state={state} />
                    {table[run + 1]?.[0]}
                  </button>
                </th>
                {cells(table[run + 1] ?? [])}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {scale.ranks.length > 1 && (
        <div className="nbdist-compare-curves" data-page="metrics">
          <ChartView chart={chart} runs={{ names, letters: ['', names[1]!], height }} />
        </div>
      )}
    </>
  );
}

/** Return the speed-up and its ideal as curves over the number of ranks. */
function chartOf({ ranks, speedups, names }: Scale): Chart {
  const ideal = ranks.map(count => count / ranks[0]!);
  return {
    tag: names[0]!,
    kind: 'ranks',
    group: 'metric',
    unit: '',
    ranks: [0, 1],
    last: speedups.slice(-1),
    // the option, for which there is room in any language
    x: '-n',
    highest: null,
    columns: [ranks, ranks, speedups, ideal].map(each => Float32Array.from(each)),
  };
}
