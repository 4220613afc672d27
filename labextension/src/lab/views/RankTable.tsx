/** The ranks of a run, a row for each. */
import { memo, type ReactElement } from 'react';

import { device, median, memory, percent, rate, stepParts, utilisation } from '../../numbers';
import type { RankView, SlowView } from '../../protocol';
import { Badge, rankColour, RankMark } from '../../views/Marks';
import { Bar, fullUse, Sparkline, StepBar } from '../../views/Meters';
import { Memory, stateWord } from '../../views/RankStrip';
import type { heldRanks } from '../../views/Stall';
import type { Words } from '../../words';
import type { LabWords } from '../words';
import { ConditionMark } from './LabIcons';

interface TableProps {
  ranks: readonly RankView[];
  /** the rank that holds the others up, as it was measured */
  slow: SlowView | null;
  /** of a run that hangs, what its ranks do */
  held: ReturnType<typeof heldRanks>;
  failedFirst: number | null;
  utilisation: ReadonlyMap<number, readonly number[]>;
  waits: ReadonlyMap<number, number>;
  narrow: boolean;
  words: LabWords;
  panelWords: Words;
  onOpen: (rank: number) => void;
}

const NONE: readonly number[] = [];

export const RankTable = memo(function RankTable(props: TableProps): ReactElement {
  const { ranks, narrow, words, panelWords, onOpen } = props;
  const behind = props.slow?.rank ?? slowestOf(ranks);
  const gpus = ranks.some(rank => rank.gpuMemory !== null);
  const steps = ranks.some(rank => stepParts(rank.rate, props.waits.get(rank.rank)));
  return (
    // a region that scrolls can be reached with the keyboard
    <div className="nbdist-table-frame" role="region" aria-label={words.ranksTable} tabIndex={0}>
      <table className="nbdist-table" data-narrow={narrow}>
        <thead>
          <tr>
            <th scope="col">{panelWords.rank}</th>
            <th scope="col">{words.state}</th>
            <th scope="col">{words.device}</th>
            <th scope="col">{gpus ? words.gpuMemory : words.memory}</th>
            <th scope="col">{words.utilisation}</th>
            {steps && <th scope="col">{narrow ? words.stepColumnShort : words.stepColumn}</th>}
            <th scope="col" className="nbdist-end">
              {words.rateColumn}
            </th>
            {!narrow && <th scope="col">{words.lastLine}</th>}
          </tr>
        </thead>
        <tbody>
          {ranks.map(rank => (
            <Row
              key={rank.rank}
              rank={rank}
              first={rank.rank === props.failedFirst}
              behind={rank.rank === behind}
              held={props.held.get(rank.rank)?.kind === 'held'}
              over={props.slow?.rank === rank.rank ? props.slow.over : null}
              samples={props.utilisation.get(rank.rank) ?? NONE}
              steps={steps}
              wait={props.waits.get(rank.rank)}
              narrow={narrow}
              words={words}
              panelWords={panelWords}
              onOpen={onOpen}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
});

/** In step with the others nobody is: a rank is behind when it does a tenth fewer steps a second. */
export function slowestOf(ranks: readonly RankView[]): number | null {
  const rates = ranks.flatMap(rank => (rank.rate === null ? [] : [rank.rate]));
  const usual = median(rates);
  const lowest = ranks.reduce<RankView | null>(
    (low, rank) => (rank.rate !== null && (low?.rate ?? Infinity) > rank.rate ? rank : low),
    null,
  );
  return usual !== null && rates.length > 1 && lowest && lowest.rate! < 0.9 * usual ? lowest.rank : null;
}

interface RowProps {
  rank: RankView;
  first: boolean;
  behind: boolean;
  /** the others wait for it */
  held: boolean;
  /** milliseconds that its step takes longer than the others' */
  over: number | null;
  samples: readonly number[];
  /** whether the table says what steps take */
  steps: boolean;
  /** percent of its time that the rank waits for others */
  wait: number | undefined;
  narrow: boolean;
  words: LabWords;
  panelWords: Words;
  onOpen: (rank: number) => void;
}

const Row = memo(function Row(props: RowProps): ReactElement {
  const { rank, over, samples, narrow, panelWords, onOpen } = props;
  const found = memory(rank);
  const use = utilisation(rank);
  const step = stepParts(rank.rate, props.wait);
  return (
    <tr className={rankColour(rank.rank)} onClick={() => onOpen(rank.rank)}>
      <th scope="row">
        <button
          type="button"
          className="nbdist-rank-link"
          aria-label={panelWords.toLog(rank.rank)}
          title={rank.pid === null ? panelWords.toLog(rank.rank) : `pid ${rank.pid}`}
        >
          <Badge rank={rank.rank} />
        </button>
      </th>
      <td>
        <span className="nbdist-row">
          <Condition {...props} />
          {over !== null && <span className="nbdist-quiet">+{Math.round(over)} ms</span>}
          {rank.exit && <span className="nbdist-quiet nbdist-cut">{rank.exit}</span>}
        </span>
      </td>
      <td>{device(rank.device)}</td>
      <td>
        <span className="nbdist-row">
          {!narrow && found?.total ? <Bar fraction={found.used / found.total} /> : null}
          <Memory rank={rank} />
        </span>
      </td>
      <td>
        <span className="nbdist-row">
          {use !== null && !narrow && <Sparkline samples={samples} full={fullUse(samples)} />}
          {use !== null && <span className="nbdist-number">{percent(use)}</span>}
        </span>
      </td>
      {props.steps && <td>{step && <StepBar step={step} figures={narrow} words={panelWords} />}</td>}
      <td className="nbdist-end">{rank.rate !== null && panelWords.rate(rate(rank.rate))}</td>
      {!narrow && <td className="nbdist-table-last">{rank.lastLine.replace(ESCAPES, '')}</td>}
    </tr>
  );
});

function Condition({ rank, first, behind, held, words, panelWords }: RowProps): ReactElement {
  if (held || behind) {
    return (
      <>
        <ConditionMark name={held ? 'stalled' : 'slowest'} />
        {held ? panelWords.heldUp : words.slowest}
      </>
    );
  }
  return (
    <>
      <RankMark state={rank.state} />
      {stateWord(rank, first, panelWords)}
    </>
  );
}

const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;
