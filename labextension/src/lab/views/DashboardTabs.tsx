/** All and the ranks at the left; stacks, VisualDL, metrics and the cell at the right. Arrow keys select. */
import { memo, useRef, type KeyboardEvent, type ReactElement } from 'react';

import { moved } from '../../keys';
import { rankColour } from '../../views/Marks';
import type { Words } from '../../words';
import type { LabWords } from '../words';
import { LabIcon, type LabIconName } from './LabIcons';

export type DashboardTab = 'all' | number | 'stacks' | 'board' | 'metrics' | 'cell';

const PAGES = ['stacks', 'board', 'metrics', 'cell'] as const;
const ICONS: Record<(typeof PAGES)[number], LabIconName> = {
  stacks: 'stacks',
  board: 'board',
  metrics: 'metrics',
  cell: 'cell',
};

interface TabsProps {
  ranks: readonly number[];
  errors: ReadonlyMap<number, number>;
  current: DashboardTab;
  live: boolean;
  narrow: boolean;
  words: LabWords;
  panelWords: Words;
  tabId: (tab: DashboardTab) => string;
  panelId: (tab: DashboardTab) => string;
  onSelect: (tab: DashboardTab) => void;
}

export const DashboardTabs = memo(function DashboardTabs(props: TabsProps): ReactElement {
  const { ranks, errors, current, narrow, words, panelWords, onSelect } = props;
  const list = useRef<HTMLDivElement>(null);
  const pages = PAGES.filter(page => page !== 'stacks' || props.live);
  const order: readonly DashboardTab[] = ['all', ...ranks, ...pages];
  const names = {
    stacks: words.stacks,
    board: words.board,
    metrics: panelWords.metrics,
    cell: panelWords.cell,
  };

  const key = (event: KeyboardEvent): void => {
    const to = moved(event.key, order.indexOf(current), order.length);
    if (to !== null && event.key !== 'ArrowUp' && event.key !== 'ArrowDown') {
      onSelect(order[to]!);
      list.current?.querySelectorAll<HTMLElement>('[role=tab]')[to]?.focus();
      event.preventDefault();
    }
  };
  const common = (tab: DashboardTab): object => ({
    type: 'button',
    role: 'tab',
    id: props.tabId(tab),
    'aria-selected': tab === current,
    'aria-controls': props.panelId(tab),
    tabIndex: tab === current ? 0 : -1,
    onClick: () => onSelect(tab),
  });

  return (
    <div className="nbdist-tabs">
      <div role="tablist" aria-label={panelWords.views} className="nbdist-tablist" ref={list} onKeyDown={key}>
        <button className="nbdist-tab" {...common('all')}>
          {panelWords.all}
        </button>
        {ranks.map(rank => {
          const count = errors.get(rank) ?? 0;
          const name = panelWords.rankNumber(rank) + (count ? `, ${panelWords.errors(count)}` : '');
          return (
            <button
              className={`nbdist-tab ${rankColour(rank)}`}
              key={rank}
              aria-label={name}
              {...common(rank)}
            >
              <span className="nbdist-dot" />
              {rank}
              {count > 0 && (
                <span className="nbdist-tab-errors" title={panelWords.errors(count)}>
                  {count > 99 ? '99+' : count}
                </span>
              )}
            </button>
          );
        })}
        {pages.map(tab => (
          <button
            className="nbdist-tab nbdist-tab-end"
            key={tab}
            aria-label={names[tab]}
            title={narrow ? names[tab] : undefined}
            {...common(tab)}
          >
            <LabIcon name={ICONS[tab]} />
            {!narrow && names[tab]}
          </button>
        ))}
      </div>
    </div>
  );
});
