/** The ranks of a run, a row for each. */
import { memo, type ReactElement } from 'react';

import { device, memory, percent, rate, stepParts, utilisation } from '../../numbers';
import { Badge, rankColour } from '../../views/Marks';
import { Bar, fullUse, Sparkline, StepBar } from '../../views/Meters';
import {
  measureNames,
  Memory,
  overText,
  plain,
  StateMark,
  wordOf,
  type Standing,
  type StripProps,
} from '../../views/RankStrip';
import type { LabWords } from '../words';

type TableProps = StripProps & { labWords: LabWords };

const NONE: readonly number[] = [];

export const RankTable = memo(function RankTable(props: TableProps): ReactElement {
  const { ranks, live, size, words, labWords, onOpen } = props;
  const narrow = size === 'narrow' || size === 'medium';
  const names = measureNames(ranks, live, words);
  const columns = {
    // of a run that has ended nothing more becomes known
    memory: live || ranks.some(rank => memory(rank)),
    use: live || ranks.some(rank => utilisation(rank) !== null),
    steps: ranks.some(rank => stepParts(rank.rate, props.waits.get(rank.rank))),
    rate: live || ranks.some(rank => rank.rate !== null),
  };
  return (
    // a region that scrolls can be reached with the keyboard
    <div className="nbdist-table-frame" role="region" aria-label={words.rankList} tabIndex={0}>
      <table className="nbdist-table" data-narrow={narrow}>
        <thead>
          <tr>
            <th scope="col">{words.rank}</th>
            <th scope="col">{words.state}</th>
            <th scope="col">{labWords.device}</th>
            {columns.memory && <th scope="col">{names.memory}</th>}
            {columns.use && <th scope="col">{names.utilisation}</th>}
            {columns.steps && <th scope="col">{narrow ? labWords.stepColumnShort : labWords.stepColumn}</th>}
            {columns.rate && (
              <th scope="col" className="nbdist-end">
                {names.rate}
              </th>
            )}
            {!narrow && <th scope="col">{words.lastLine}</th>}
          </tr>
        </thead>
        <tbody>
          {ranks.map(rank => (
            <Row
              key={rank.rank}
              rank={rank}
              first={rank.rank === props.failedFirst}
              held={props.held.get(rank.rank)}
              slow={props.slow?.rank === rank.rank ? props.slow : null}
              samples={props.utilisation.get(rank.rank) ?? NONE}
              live={live}
              memory={columns.memory}
              use={columns.use}
              steps={columns.steps}
              rates={columns.rate}
              wait={props.waits.get(rank.rank)}
              narrow={narrow}
              words={words}
              onOpen={onOpen}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
});

interface RowProps extends Standing {
  samples: readonly number[];
  live: boolean;
  /** which columns there are */
  memory: boolean;
  use: boolean;
  steps: boolean;
  rates: boolean;
  /** percent of its time that the rank waits for others */
  wait: number | undefined;
  narrow: boolean;
  onOpen: (rank: number) => void;
}

const Row = memo(function Row(props: RowProps): ReactElement {
  const { rank, slow, samples, narrow, words, onOpen } = props;
  const found = memory(rank);
  const use = utilisation(rank);
  const step = stepParts(rank.rate, props.wait);
  const running = rank.state === 'running';
  const doing = props.held?.what ?? (slow ? overText(slow, words) : '');
  const about = running ? doing : rank.state === 'succeeded' ? '' : words.told(rank.exit);
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
            {!narrow && found?.total ? <Bar fraction={found.used / found.total} /> : null}
            <Memory rank={rank} />
          </span>
        </td>
      )}
      {props.use && (
        <td>
          <span className="nbdist-row">
            {use !== null && props.live && !narrow && <Sparkline samples={samples} full={fullUse(samples)} />}
            {use !== null && <span className="nbdist-number">{percent(use)}</span>}
          </span>
        </td>
      )}
      {props.steps && <td>{step && <StepBar step={step} figures={narrow} words={words} />}</td>}
      {props.rates && <td className="nbdist-end">{rank.rate !== null && words.rate(rate(rank.rate))}</td>}
      {!narrow && <td className="nbdist-table-last">{plain(rank.lastLine)}</td>}
    </tr>
  );
});
