/** Ranks, a row for each: all of a run that has few, or the selected one of many. */
import type { ReactElement, ReactNode } from 'react';

import { plain } from '../../log/ansi';
import {
  device,
  dotted,
  memory,
  milliseconds,
  percent,
  rate,
  stepParts,
  utilisation,
} from '../../words/formats';
import type { RankView, RunView, SlowView } from '../../protocol/run';
import { localized } from '../../words/languages';
import { words } from '../../words/panel';
import { Badge, inColourOf } from '../Marks';
import { measureNames, Memory, type Standing, StateMark, wordOf } from './rank_parts';

interface TableProps {
  view: RunView;
  standings: readonly Standing[];
  onOpen: (rank: number) => void;
}

export function RankTable({ view, standings, onOpen }: TableProps): ReactElement {
  const columns = columnsOf(view);
  return (
    // a region that scrolls can be reached with the keyboard
    <div className="nbdist-table-frame" role="region" aria-label={words.rankList} tabIndex={0}>
      <table className="nbdist-table">
        <thead>
          <tr>
            <th scope="col">{words.rank}</th>
            {columns.map(({ name, className }) => (
              <th scope="col" key={name} className={className}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {standings.map(standing => {
            const { rank, pid } = standing.rank;
            return (
              <tr key={rank} className="nbdist-rank" style={inColourOf(rank)} onClick={() => onOpen(rank)}>
                <th scope="row">
                  <button
                    type="button"
                    className="nbdist-link"
                    aria-label={words.toLog(rank)}
                    title={pid === null ? words.toLog(rank) : `pid ${pid}`}
                  >
                    <Badge rank={rank} />
                  </button>
                </th>
                {columns.map(({ name, className, draw }) => (
                  <td key={name} className={className}>
                    {draw(standing)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

interface Column {
  name: string;
  shown: boolean;
  className?: string;
  draw: (standing: Standing) => ReactNode;
}

/** Return the columns of a run: of a live one also those of what is not measured yet, so that nothing moves then. */
function columnsOf(view: RunView): readonly Column[] {
  const { ranks, live } = view;
  const names = measureNames(view);
  const several = ranks.some(({ node }) => node !== ranks[0]!.node);
  const measured = (measure: (rank: RankView) => unknown): boolean =>
    live || ranks.some(rank => measure(rank) !== null);
  const columns: readonly Column[] = [
    { name: words.state, shown: true, draw: standing => <RankState {...standing} /> },
    {
      name: words.device,
      shown: true,
      draw: ({ rank }) => dotted(several && words.node(rank.node), device(rank.device)),
    },
    { name: names.memory, shown: measured(memory), draw: ({ rank }) => <Memory rank={rank} /> },
    {
      name: names.utilisation,
      shown: measured(utilisation),
      draw: ({ rank }) => {
        const use = utilisation(rank);
        return use !== null && percent(use);
      },
    },
    {
      name: words.stepColumn,
      shown: (live || view.training?.onHost === true) && ranks.some(stepParts),
      className: 'nbdist-roomy',
      draw: ({ rank }) => {
        const step = stepParts(rank);
        return step && words.ownAndWaiting(milliseconds(step.own), milliseconds(step.waiting));
      },
    },
    {
      name: names.rate,
      shown: measured(rank => rank.rate),
      className: 'nbdist-end',
      draw: ({ rank }) => rank.rate !== null && words.rate(rate(rank.rate)),
    },
    {
      name: words.lastLine,
      shown: true,
      className: 'nbdist-last nbdist-roomy',
      draw: ({ rank }) => plain(rank.lastLine),
    },
  ];
  return columns.filter(({ shown }) => shown);
}

function RankState(standing: Standing): ReactElement {
  const { rank, first, held, slow } = standing;
  const doing = rank.state === 'running' ? (held?.what ?? (slow ? overText(slow) : '')) : '';
  const about = (rank.state !== 'finished' && localized(rank.exit)) || doing;
  return (
    <span className="nbdist-row" title={slow ? localized(slow.reason) : undefined}>
      <StateMark {...standing} />
      <span className={first || held?.kind === 'held' ? 'nbdist-strong' : undefined}>{wordOf(standing)}</span>
      {about && <span className="nbdist-quiet nbdist-cut">{about}</span>}
    </span>
  );
}

/** Return `+18 ms`, `×1.6`: by how much a rank is slower than the others. */
function overText({ over, factor }: SlowView): string {
  return over === null ? words.slowTimes(factor.toFixed(1)) : words.slowBy(over.toFixed(over < 10 ? 1 : 0));
}
