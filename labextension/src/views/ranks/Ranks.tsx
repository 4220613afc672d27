/** The ranks of a run: of up to eight a cell for each, or where it is narrow a line; of more a grid. */
import { type ComponentType, type KeyboardEvent, memo, type ReactElement, useRef, useState } from 'react';

import { moved } from '../keys';
import { plain } from '../../log/ansi';
import { device, memory, milliseconds, percent, rate, stepParts, utilisation } from '../../model/formats';
import { localized } from '../../words/languages';
import { pageWords } from '../../words/panel';
import { Badge, Mark, rankColour } from '../Marks';
import { RankGrid } from './RankGrid';
import type { Size } from '../hooks';
import {
  Bar,
  Memory,
  overText,
  type RanksProps,
  Sparkline,
  type Standing,
  StateMark,
  useStandings,
  wordOf,
} from './rank_parts';

/** Up to here each rank has a cell and a tab. */
export const FEW = 8;

interface ChoiceProps extends RanksProps {
  selected: number | null;
  onSelect: (rank: number | null) => void;
  /** draws a few ranks, in the place of a strip */
  rankList?: ComponentType<RanksProps> | undefined;
}

export function Ranks({ rankList: Few = RankStrip, ...props }: ChoiceProps): ReactElement {
  return props.view.ranks.length <= FEW ? <Few {...props} /> : <RankGrid {...props} />;
}

function RankStrip(props: RanksProps): ReactElement {
  const { view, size, onOpen } = props;
  const { ranks, live } = view;
  const [current, setCurrent] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const standings = useStandings(props);
  const narrow = size === 'narrow';
  const Cell = !live ? EndedCell : narrow ? RankLine : RankCell;

  const key = (event: KeyboardEvent): void => {
    const to = moved(event.key, current, ranks.length);
    if ((event.key === 'Enter' || event.key === ' ') && event.target !== event.currentTarget) {
      onOpen(ranks[current]!.rank);
    } else if (to !== null) {
      setCurrent(to);
      list.current?.querySelectorAll<HTMLElement>('.nbdist-rank')[to]?.focus();
    } else {
      return;
    }
    event.preventDefault();
  };

  return (
    <div
      role="list"
      aria-label={pageWords().rankList}
      className="nbdist-strip"
      data-narrow={narrow}
      ref={list}
      style={{ gridTemplateColumns: `repeat(${columns(ranks.length, size)}, minmax(0, 1fr))` }}
      onKeyDown={key}
    >
      {standings.map((standing, index) => (
        <div key={standing.rank.rank} role="listitem">
          <Cell {...standing} focusable={index === Math.min(current, ranks.length - 1)} onOpen={onOpen} />
        </div>
      ))}
    </div>
  );
}

/** Return the number of columns: at most four, and rows of about the same length. */
function columns(count: number, size: Size): number {
  const most = size === 'narrow' ? 1 : size === 'medium' ? 2 : 4;
  return Math.max(1, Math.ceil(count / Math.ceil(count / most)));
}

interface CellProps extends Standing {
  focusable: boolean;
  onOpen: (rank: number) => void;
}

function frameOf(props: CellProps, line = false): object {
  const { rank, focusable, onOpen } = props;
  const words = pageWords();
  const name = [words.rankNumber(rank.rank), device(rank.device), wordOf(props), localized(rank.exit)];
  return {
    className: `nbdist-rank ${line ? 'nbdist-rank-line ' : ''}${rankColour(rank.rank)}`,
    role: 'button',
    tabIndex: focusable ? 0 : -1,
    'aria-label': name.filter(Boolean).join(words.comma),
    title: rank.pid === null ? undefined : `pid ${rank.pid}`,
    onClick: () => onOpen(rank.rank),
  };
}

const RankCell = memo(function RankCell(props: CellProps): ReactElement {
  const { rank, held, slow } = props;
  const running = rank.state === 'running';
  const word = wordOf(props);
  if (held && running) {
    return (
      <div {...frameOf(props)}>
        <div className="nbdist-row">
          <Badge rank={rank.rank} />
          <StateMark {...props} />
          <span className={held.kind === 'held' ? 'nbdist-strong' : ''}>{word}</span>
          <span className="nbdist-space" />
          <span className="nbdist-quiet nbdist-cut">{held.what}</span>
        </div>
      </div>
    );
  }
  return (
    <div {...frameOf(props)}>
      <div className="nbdist-row">
        <Badge rank={rank.rank} />
        <span className="nbdist-cut">{device(rank.device)}</span>
        <span className="nbdist-space" />
        {!running && <span className="nbdist-quiet">{word}</span>}
        {running && slow && (
          <span className="nbdist-slow" title={localized(slow.reason)}>
            {word} {overText(slow)}
          </span>
        )}
        <StateMark {...props} title={word} />
      </div>
      {!rank.exit.en ? <Meters {...props} /> : <div className="nbdist-exit">{localized(rank.exit)}</div>}
      <div className="nbdist-last">{plain(rank.lastLine)}</div>
    </div>
  );
});

/** Draw texts in the first row and their pictures in the second; both exist before anything is measured, so that
 * nothing below moves then. */
function Meters({ rank, samples, wait }: CellProps): ReactElement {
  const words = pageWords();
  const used = memory(rank);
  const use = utilisation(rank);
  const step = stepParts(rank.rate, wait);
  return (
    <div className="nbdist-meters">
      {used && (
        <div className="nbdist-meter">
          <Memory rank={rank} />
          {used.total !== null && <Bar fraction={used.used / used.total} />}
        </div>
      )}
      {use !== null && (
        <div className="nbdist-meter">
          <span>{percent(use)}</span>
          <Sparkline samples={samples} />
        </div>
      )}
      {rank.rate !== null && (
        <div className="nbdist-meter nbdist-steps">
          <span>{words.rate(rate(rank.rate))}</span>
          {step && <span className="nbdist-quiet">{words.own(milliseconds(step.own))}</span>}
        </div>
      )}
    </div>
  );
}

const RankLine = memo(function RankLine(props: CellProps): ReactElement {
  const { rank, held } = props;
  const word = wordOf(props);
  const used = memory(rank);
  return (
    <div {...frameOf(props, true)}>
      <Badge rank={rank.rank} />
      <span className="nbdist-device">{device(rank.device)}</span>
      {used?.total ? <Bar fraction={used.used / used.total} /> : <span className="nbdist-space" />}
      {rank.state === 'running' && !rank.exit.en ? (
        <Memory rank={rank} />
      ) : (
        <span className="nbdist-quiet">{localized(rank.exit) || word}</span>
      )}
      {rank.rate !== null && <span className="nbdist-rate">{pageWords().rate(rate(rank.rate))}</span>}
      {held && <span className="nbdist-quiet nbdist-cut">{held.what}</span>}
      <StateMark {...props} title={word} />
    </div>
  );
});

const EndedCell = memo(function EndedCell(props: CellProps): ReactElement {
  const { rank, first } = props;
  const exit = localized(rank.exit);
  return (
    <div {...frameOf(props, true)}>
      <Badge rank={rank.rank} />
      <Mark state={rank.state} ofRank />
      <span className={first ? 'nbdist-strong' : ''}>{wordOf(props)}</span>
      <span className="nbdist-space" />
      <span className="nbdist-quiet nbdist-cut" title={exit}>
        {exit}
      </span>
    </div>
  );
});
