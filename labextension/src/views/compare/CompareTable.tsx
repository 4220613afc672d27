/** The runs that are compared, a row for each: what differs, sorted by any column, and whose curves are drawn. */
import { type Dispatch, memo, type ReactElement, type SetStateAction, useMemo, useState } from 'react';

import {
  valueText,
  columnKey,
  columnName,
  type Compared,
  type ComparedRow,
  comparisonColumns,
  firstColumns,
  groupName,
  sorted,
  timeOf,
} from '../../model/comparison';
import { words } from '../../words/panel';
import { BestRun, Mark, inColourOf } from '../Marks';
import { TimeBar } from '../TimeBar';

interface TableProps {
  compared: Compared;
  /** names of the runs */
  names: readonly string[];
  /** the runs whose curves are drawn */
  drawn: ReadonlySet<number>;
  onDrawn: Dispatch<SetStateAction<ReadonlySet<number>>>;
  onOpen: (runId: string, from: Element) => void;
  /** the order of the runs, and by which column that is, until the reader chooses one */
  sort?: (Sorting & { order: readonly number[] }) | null | undefined;
}

export interface Sorting {
  key: string;
  descending: boolean;
}

export function CompareTable(props: TableProps): ReactElement {
  const { compared, names, drawn, onDrawn } = props;
  const columns = useMemo(() => comparisonColumns(compared), [compared]);
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const { key, descending } = sorting ?? props.sort ?? { key: '', descending: false };
  const shown = useMemo(() => firstColumns(columns), [columns]);
  const order =
    !sorting && props.sort
      ? props.sort.order
      : sorted(
          columns.find(column => columnKey(column) === key),
          compared.runs.length,
          descending,
        );
  const sortBy = (by: string): void =>
    setSorting(by !== key ? { key: by, descending: false } : { key: descending ? '' : by, descending: true });
  const all = drawn.size >= compared.runs.length && compared.runs.every((_, run) => drawn.has(run));
  return (
    <div
      className="nbdist-table-frame nbdist-compare-table"
      role="region"
      aria-label={words.comparedRuns}
      tabIndex={0}
    >
      <table className="nbdist-table">
        <thead>
          <tr>
            <th scope="col">
              <input
                type="checkbox"
                aria-label={words.drawAll}
                title={words.drawAll}
                checked={all}
                onChange={() => onDrawn(new Set(all ? [] : compared.runs.keys()))}
              />
            </th>
            {shown.map(column => {
              const name = columnName(column);
              const group = groupName(column, compared.step);
              const by = columnKey(column) === key;
              return (
                <th
                  key={columnKey(column)}
                  scope="col"
                  aria-sort={by ? (descending ? 'descending' : 'ascending') : undefined}
                >
                  <button
                    type="button"
                    className="nbdist-link nbdist-sort"
                    title={words.sortBy(name + words.comma + group)}
                    onClick={() => sortBy(columnKey(column))}
                  >
                    <b>{name}</b> {by && (descending ? '▾' : '▴')}
                    <span>{group}</span>
                  </button>
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {order.map(run => (
            <Row
              key={compared.runs[run]!.runId}
              compared={compared}
              run={run}
              name={names[run]!}
              columns={shown}
              drawn={drawn.has(run)}
              onDrawn={onDrawn}
              onOpen={props.onOpen}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps extends Pick<TableProps, 'compared' | 'onDrawn' | 'onOpen'> {
  columns: readonly ComparedRow[];
  run: number;
  name: string;
  drawn: boolean;
}

const Row = memo(function Row(props: RowProps): ReactElement {
  const { compared, run, name, columns, drawn, onDrawn, onOpen } = props;
  const { runId, label, letter, state } = compared.runs[run]!;
  const time = timeOf(compared, run);
  const draw = (): void =>
    onDrawn(before => {
      const next = new Set(before);
      return next.delete(run) ? next : next.add(run);
    });
  return (
    <tr style={inColourOf(run)} data-drawn={drawn}>
      <th scope="row">
        <span className="nbdist-row">
          <input type="checkbox" aria-label={words.drawRun(label)} checked={drawn} onChange={draw} />
          <span className="nbdist-letter" data-dash={Math.floor(run / 8) % 4}>
            {letter}
          </span>
          <Mark state={state} />
          <button
            type="button"
            className="nbdist-link nbdist-name"
            title={label}
            onClick={event => onOpen(runId, event.currentTarget)}
          >
            {name}
          </button>
          {compared.best === run && compared.runs.length > 1 && <BestRun />}
          {compared.diverged.includes(run) && <span className="nbdist-diverged">{words.diverged}</span>}
        </span>
        {time && <TimeBar {...time} thin />}
      </th>
      {columns.map(column => {
        const at = column.steps[run];
        const text = valueText(column, run);
        return (
          <td className="nbdist-cut" key={columnKey(column)} title={text}>
            {text}
            {typeof at === 'number' && <span className="nbdist-quiet"> ({at.toLocaleString('en')})</span>}
          </td>
        );
      })}
    </tr>
  );
});
