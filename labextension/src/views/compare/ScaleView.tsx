/** One program on several numbers of ranks: the sentence, and a table with a bar of each efficiency. */
import { type ReactElement } from 'react';

import { type SweepNews } from '../../model/comparison';
import { Mark } from '../Marks';
import { Meter } from '../ranks/rank_parts';

type Scale = NonNullable<SweepNews['scale']>;

interface ScaleProps {
  scale: Scale;
  runs: SweepNews['runs'];
  onOpen: (runId: string, from: Element) => void;
}

export function ScaleView({ scale, runs, onOpen }: ScaleProps): ReactElement {
  const { table, sentence } = scale;
  const drawn = (cell: string): ReactElement | string => {
    const share = /^(\d+) % [█░]+$/.exec(cell)?.[1];
    return share ? <Meter text={`${share} %`} share={Number(share) / 100} /> : cell || '–';
  };
  const cells = (row: readonly string[]) => row.slice(1).map((cell, at) => <td key={at}>{drawn(cell)}</td>);
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
    </>
  );
}
