/** Everything that is known of the selected rank. */
import type { ReactElement } from 'react';
import { device, memory, percent, rate, utilisation } from '../numbers';
import { Badge, Icon, rankColour } from './Marks';
import { Bar, fullUse, Sparkline } from './Meters';
import { Memory, plain, StateMark, wordOf, type measureNames, type Standing } from './RankStrip';

interface DetailProps extends Standing {
  names: ReturnType<typeof measureNames>;
  nodes: number;
  /** null of a run that has ended */
  samples: readonly number[] | null;
  onClose: () => void;
  onOpen: (rank: number) => void;
}

export function RankDetail(props: DetailProps): ReactElement {
  const { rank, names, nodes, samples, words, onClose, onOpen } = props;
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
          <StateMark {...props} />
          {wordOf(props)}
        </span>
        <span className="nbdist-cut">
          {words.told(rank.exit) || (rank.pid === null ? '' : `pid ${rank.pid}`)}
        </span>
      </div>
      {rank.rate !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.rate}</span>
          <span />
          <span>{words.rate(rate(rank.rate))}</span>
        </div>
      )}
      {used && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.memory}</span>
          {used.total === null ? <span /> : <Bar fraction={used.used / used.total} />}
          <Memory rank={rank} />
        </div>
      )}
      {use !== null && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{names.utilisation}</span>
          {samples ? <Sparkline samples={samples} full={fullUse(samples)} /> : <span />}
          <span>{percent(use)}</span>
        </div>
      )}
      {rank.lastLine && (
        <div className="nbdist-fact">
          <span className="nbdist-quiet">{words.lastLine}</span>
          <span className="nbdist-last">{plain(rank.lastLine)}</span>
        </div>
      )}
      <button type="button" className="nbdist-button" onClick={() => onOpen(rank.rank)}>
        <Icon name="lines" />
        {words.toLog(rank.rank)}
      </button>
    </div>
  );
}
