/** A row of tabs: all and the ranks at the left, pages at the right. Arrow keys select. */
import { useRef, type KeyboardEvent, type ReactElement } from 'react';
import { moved } from '../keys';
import type { Words } from '../words';
import { rankColour } from './Marks';

/** A tab that is no log. */
export interface Page<Tab> {
  tab: Tab;
  name: string;
  icon: ReactElement;
}

interface TabRowProps<Tab> {
  /** ranks that have a tab of their own */
  ranks: readonly number[];
  pages: readonly Page<Tab>[];
  errors: ReadonlyMap<number, number>;
  current: Tab;
  narrow: boolean;
  words: Words;
  tabId: (tab: Tab) => string;
  panelId: (tab: Tab) => string;
  onSelect: (tab: Tab) => void;
}

export function TabRow<Tab extends string | number>(props: TabRowProps<Tab | 'all' | number>): ReactElement {
  const { ranks, pages, errors, current, narrow, words, onSelect } = props;
  const list = useRef<HTMLDivElement>(null);
  const order = ['all' as const, ...ranks, ...pages.map(({ tab }) => tab)];

  const key = (event: KeyboardEvent): void => {
    const to = moved(event.key, order.indexOf(current), order.length);
    if (to !== null && event.key !== 'ArrowUp' && event.key !== 'ArrowDown') {
      onSelect(order[to]!);
      list.current?.querySelectorAll<HTMLElement>('[role=tab]')[to]?.focus();
      event.preventDefault();
    }
  };
  const common = (tab: Tab | 'all' | number): object => ({
    type: 'button',
    role: 'tab',
    id: props.tabId(tab),
    'aria-selected': tab === current,
    'aria-controls': props.panelId(tab),
    tabIndex: tab === current ? 0 : -1,
    onClick: () => onSelect(tab),
  });

  return (
    <div role="tablist" aria-label={words.views} className="nbdist-tablist" ref={list} onKeyDown={key}>
      <button className="nbdist-tab" {...common('all')}>
        {words.all}
      </button>
      {ranks.map(rank => {
        const count = errors.get(rank) ?? 0;
        const name = words.rankNumber(rank) + (count ? `, ${words.errors(count)}` : '');
        return (
          <button className={`nbdist-tab ${rankColour(rank)}`} key={rank} aria-label={name} {...common(rank)}>
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
          {icon}
          {!narrow && name}
        </button>
      ))}
    </div>
  );
}
