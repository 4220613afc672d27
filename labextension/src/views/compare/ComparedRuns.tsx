/** Several runs beside each other: the table of what differs, and their curves over each other. */
import { type ReactElement, type ReactNode, useMemo, useState } from 'react';

import { overlay } from '../../model/charts';
import { chartsOf, type Compared, DRAWN } from '../../model/comparison';
import { Metrics } from '../charts/Metrics';
import { CompareTable, type Sorting } from './CompareTable';

interface ComparedRunsProps {
  compared: Compared;
  /** names of the runs in the table, and beside their points */
  names: readonly string[];
  curveNames: readonly string[];
  /** pixels of a plot */
  height: number;
  onOpen: (runId: string, from: Element) => void;
  /** the order of the runs, and by which column that is, until the reader chooses one */
  sort?: (Sorting & { order: readonly number[] }) | null;
  /** between table and curves */
  children?: ReactNode;
}

export function ComparedRuns(props: ComparedRunsProps): ReactElement {
  const { compared, children } = props;
  const [drawn, setDrawn] = useState<ReadonlySet<number>>(
    () => new Set(Array.from({ length: DRAWN }, (_, run) => run)),
  );
  const charts = useMemo(() => overlay(chartsOf(compared, drawn)), [compared, drawn]);
  return (
    <>
      <CompareTable
        compared={compared}
        names={props.names}
        drawn={drawn}
        onDrawn={setDrawn}
        onOpen={props.onOpen}
        sort={props.sort}
      />
      {children}
      {charts.size > 0 && (
        <div className="nbdist-compare-curves" data-page="metrics">
          <Metrics
            charts={charts}
            runs={{
              names: props.curveNames,
              letters: compared.runs.map(({ letter }) => letter),
              height: props.height,
            }}
            onBoard={null}
          />
        </div>
      )}
    </>
  );
}
