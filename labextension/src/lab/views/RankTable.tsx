/** The ranks of a run, a row for each. */
import { memo, type ReactElement } from 'react';

import { plain } from '../../log/ansi';
import { device, memory, percent, rate, stepParts, utilisation } from '../../model/formats';
import { Badge, rankColour } from '../../views/Marks';
import {
  Bar,
  measureNames,
  Memory,
  overText,
  type RanksProps,
  Sparkline,
  type Standing,
  StateMark,
  StepBar,
  useStandings,
  wordOf,
} from '../../views/ranks/rank_parts';
import { localized } from '../../words/languages';
import { pageWords } from '../../words/panel';
import { labWords } from '../../words/lab';

/** The columns to draw; a run that has ended has no live measures. */
interface Columns {
  memory: boolean;
  use: boolean;
  sparks: boolean;
  steps: boolean;
  rate: boolean;
  narrow: boolean;
}

export function RankTable(props: RanksProps): ReactElement {
  const { view, size } = props;
  const { ranks, live } = view;
  const words = pageWords();
  const { device, stepColumn, stepColumnShort } = labWords();
  const narrow = size === 'narrow' || size === 'medium';
  const names = measureNames(view);
  const columns: Columns = {
    memory: live || ranks.some(rank => memory(rank)),
    use: live || ranks.some(rank => utilisation(rank) !== null),
    sparks: live && !narrow,
    steps: ranks.some(rank => stepParts(rank.rate, props.waits.get(rank.rank))),
    rate: live || ranks.some(rank => rank.rate !== null),
    narrow,
  };
  const standings = useStandings(props);
  return (
    // a region that scrolls can be reached with the keyboard
    <div className="nbdist-table-frame" role="region" aria-label={words.rankList} tabIndex={0}>
      <table className="nbdist-table" data-narrow={narrow}>
        <thead>
          <tr>
            <th scope="col">{words.rank}</th>
            <th scope="col">{words.state}</th>
            <th scope="col">{device}</th>
            {columns.memory && <th scope="col">{names.memory}</th>}
            {columns.use && <th scope="col">{names.utilisation}</th>}
            {columns.steps && <th scope="col">{narrow ? stepColumnShort : stepColumn}</th>}
            {columns.rate && (
              <th scope="col" className="nbdist-end">
                {names.rate}
              </th>
            )}
            {!narrow && <th scope="col">{words.lastLine}</th>}
          </tr>
        </thead>
        <tbody>
          {standings.map(standing => (
            <Row key={standing.rank.rank} {...standing} {...columns} onOpen={props.onOpen} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

type RowProps = Standing & Columns & Pick<RanksProps, 'onOpen'>;

const Row = memo(function Row(props: RowProps): ReactElement {
  const { rank, slow, narrow, onOpen } = props;
  const words = pageWords();
  const used = memory(rank);
  const use = utilisation(rank);
  const step = stepParts(rank.rate, props.wait);
  const running = rank.state === 'running';
  const doing = props.held?.what ?? (slow ? overText(slow) : '');
  const about = running
    ? localized(rank.exit) || doing
    : rank.state === 'finished'
      ? ''
      : localized(rank.exit);
  return (
    <tr className={rankColour(rank.rank)} onClick={() => onOpen(rank.rank)}>
      <th scope="row">
        <button
          type="button"
          className="nbdist-rank-link"
          aria-label={words.toLog(rank.rank)}
          title={rank.pid === null ? words.toLog(rank.rank) : `pid ${rank.pid}`}
        >
          <Badge rank={rank.rank} />
        </button>
      </th>
      <td>
        <span className="nbdist-row">
          <StateMark {...props} />
          {wordOf(props)}
          {about && <span className="nbdist-quiet nbdist-cut">{about}</span>}
        </span>
      </td>
      <td>{device(rank.device)}</td>
      {props.memory && (
        <td>
          <span className="nbdist-row">
            {!narrow && used?.total ? <Bar fraction={used.used / used.total} /> : null}
            <Memory rank={rank} />
          </span>
        </td>
      )}
      {props.use && (
        <td>
          <span className="nbdist-row">
            {use !== null && props.sparks && <Sparkline samples={props.samples} />}
            {use !== null && <span className="nbdist-number">{percent(use)}</span>}
          </span>
        </td>
      )}
      {props.steps && <td>{step && <StepBar step={step} figures={narrow} />}</td>}
      {props.rate && <td className="nbdist-end">{rank.rate !== null && words.rate(rate(rank.rate))}</td>}
      {!narrow && <td className="nbdist-table-last">{plain(rank.lastLine)}</td>}
    </tr>
  );
});
