/** Everything that is known of the selected rank. */
import type { ReactElement } from 'react';
import { device, memory, percent, rate, utilisation } from '../numbers';
import type { RankView } from '../protocol';
import type { Words } from '../words';
import { Badge, Icon, rankColour, RankMark } from './Marks';
import { Bar, fullUse, Sparkline } from './Meters';
import { Memory, stateWord } from './RankStrip';

interface DetailProps {
  rank: RankView;
  first: boolean;
  nodes: number;
  samples: readonly number[];
  words: Words;
  onClose: () => void;
  onOpen: (rank: number) => void;
}

export function RankDetail({
  rank,
  first,
  nodes,
  samples,
  words,
  onClose,
  onOpen,
}: DetailProps): ReactElement {
  const used = memory(rank);
  const use = utilisation(rank);
  const where = [nodes > 1 && words.node(rank.node), device(rank.device)].filter(Boolean).join(' · ');
  return (
    <div
      className={`nbdist-detail ${rankColour(rank.rank)}`}
      role="group"
      aria-label={words.rankNumber(rank.rank)}
    >
      <div className="nbdist-row nbdist-heat-head">
        <Badge rank={rank.rank} />
        <b className="nbdist-cut">{where}</b>
        <span className="nbdist-space" />
        <button
          type="button"
          className="nbdist-button nbdist-bare"
          aria-label={words.close}
          title={words.close}
          onClick={onClose}
        >
          <Icon name="close" />
        </button>
      </div>
      <div className="nbdist-fact">
        <span className="nbdist-quiet">{words.state}</span>
        <span className="nbdist-row">
          <RankMark state={rank.state} />
          {stateWord(rank, first, words)}
        </span>
        <span className="nbdist-cut">
          {words.told(rank.exit) || (rank.pid === null ? '' : `pid ${rank.pid}`)}
        </span>
      </div>
      {rank.rate !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{words.stepRate}</span>
          <span />
          <span>{words.rate(rate(rank.rate))}</span>
        </div>
      )}
      {used && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{rank.gpuMemory === null ? words.memory : words.gpuMemory}</span>
          {used.total === null ? <span /> : <Bar fraction={used.used / used.total} />}
          <Memory rank={rank} />
        </div>
      )}
      {use !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{words.utilisation}</span>
          <Sparkline samples={samples} full={fullUse(samples)} />
          <span>{percent(use)}</span>
        </div>
      )}
      <button type="button" className="nbdist-button" onClick={() => onOpen(rank.rank)}>
        <Icon name="lines" />
        {words.toLog(rank.rank)}
      </button>
    </div>
  );
}
