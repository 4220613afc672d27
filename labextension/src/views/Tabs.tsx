/** A run's tabs: all and the ranks at the left, pages at the right; of many ranks a list picks one. */
import { type KeyboardEvent, type ReactElement, useRef } from 'react';

import { moved } from './keys';
import { words } from '../words/panel';
import { Icon, type IconName, inColourOf } from './Marks';

/** A tab: the log of all ranks or of one, or a page (curves, program, pages of the host). */
export type Tab = 'all' | number | PageName;
type PageName = 'metrics' | 'cell' | 'stacks' | 'board';

/** Return true when a tab shows a log. */
export function isLog(tab: Tab): tab is 'all' | number {
  return tab === 'all' || typeof tab === 'number';
}

export interface PageTab {
  tab: PageName;
  name: string;
  icon: IconName;
}

interface TabsProps {
  /** ranks that have a tab of their own */
  ranks: readonly number[];
  pages: readonly PageTab[];
  /** number of ranks to pick from; 0 for no list */
  pick: number;
  /** error lines of the ranks that have any */
  errors: ReadonlyMap<number, number>;
  current: Tab;
  narrow: boolean;
  tabId: (tab: Tab) => string;
  panelId: (tab: Tab) => string;
  onSelect: (tab: Tab) => void;
}

export function Tabs(props: TabsProps): ReactElement {
  const { ranks, pages, pick, errors, current, narrow, onSelect } = props;
  const list = useRef<HTMLDivElement>(null);
  const order: Tab[] = ['all', ...ranks, ...pages.map(({ tab }) => tab)];

  // arrow keys select
  const key = (event: KeyboardEvent): void => {
    const to = moved(event.key, order.indexOf(current), order.length);
    if (to !== null && event.key !== 'ArrowUp' && event.key !== 'ArrowDown') {
      onSelect(order[to]!);
      list.current?.querySelectorAll<HTMLElement>('[role=tab]')[to]?.focus();
      event.preventDefault();
    }
  };
  const common = (tab: Tab): object => ({
    type: 'button',
    role: 'tab',
    id: props.tabId(tab),
    'aria-selected': tab === current,
    'aria-controls': props.panelId(tab),
    tabIndex: tab === current ? 0 : -1,
    onClick: () => onSelect(tab),
  });

  return (
    <div className="nbdist-tabs" data-pick={pick > 0}>
      <div role="tablist" aria-label={words.views} className="nbdist-tablist" ref={list} onKeyDown={key}>
        <button className="nbdist-tab" {...common('all')}>
          {words.all}
        </button>
        {ranks.map(rank => {
          const count = errors.get(rank) ?? 0;
          const name = words.rankNumber(rank) + (count ? words.comma + words.errors(count) : '');
          return (
            <button
              className="nbdist-tab"
              style={inColourOf(rank)}
              key={rank}
              aria-label={name}
              {...common(rank)}
            >
              <span className="nbdist-dot" />
              {rank}
              {count > 0 && (
                <span className="nbdist-tab-errors" title={words.errors(count)}>
                  {count > 99 ? '99+' : count}
                </span>
              )}
            </button>
          );
        })}
        {pages.map(({ tab, name, icon }) => (
          <button
            className="nbdist-tab nbdist-tab-end"
            key={tab}
            aria-label={name}
            title={narrow ? name : undefined}
            {...common(tab)}
          >
            <Icon name={icon} />
            {!narrow && name}
          </button>
        ))}
      </div>
      {pick > 0 && <RankPicker count={pick} onPick={onSelect} />}
    </div>
  );
}

/** Draw all ranks to choose from: typing a number goes to it. */
function RankPicker({ count, onPick }: { count: number; onPick: (rank: number) => void }): ReactElement {
  return (
    <select
      className="nbdist-field nbdist-picker"
      aria-label={words.pickRankLabel}
      title={words.pickRankLabel}
      value=""
      onChange={event => onPick(Number(event.currentTarget.value))}
    >
      <option value="" disabled>
        {words.pickRank}
      </option>
      {Array.from({ length: count }, (_, rank) => (
        <option key={rank}>{rank}</option>
      ))}
    </select>
  );
}
