/** All and the ranks at the left, Metrics and Cell at the right. Arrow keys select. */
import { memo, useId, useRef, useState, type InputEvent, type KeyboardEvent, type ReactElement } from 'react';
import { moved } from '../keys';
import type { Words } from '../words';
import { Icon, rankColour } from './Marks';

/** What is shown: the log of all ranks, of one, the curves, or the program. */
export type Tab = 'all' | 'metrics' | 'cell' | number;

interface TabsProps {
  /** ranks that have a tab of their own */
  ranks: readonly number[];
  /** how many ranks there are to pick from; 0 when all have a tab */
  pick: number;
  errors: ReadonlyMap<number, number>;
  current: Tab;
  narrow: boolean;
  words: Words;
  tabId: (tab: Tab) => string;
  panelId: (tab: Tab) => string;
  onSelect: (tab: Tab) => void;
}

export const Tabs = memo(function Tabs(props: TabsProps): ReactElement {
  const { ranks, current, errors, narrow, words, onSelect } = props;
  const list = useRef<HTMLDivElement>(null);
  const order: readonly Tab[] = ['all', ...ranks, 'metrics', 'cell'];

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
    <div className="nbdist-tabs" data-pick={props.pick > 0}>
      <div role="tablist" aria-label={words.views} className="nbdist-tablist" ref={list} onKeyDown={key}>
        <button className="nbdist-tab" {...common('all')}>
          {words.all}
        </button>
        {ranks.map(rank => {
          const count = errors.get(rank) ?? 0;
          const name = words.rankNumber(rank) + (count ? `, ${words.errors(count)}` : '');
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
                <span className="nbdist-tab-errors" title={words.errors(count)}>
                  {count > 99 ? '99+' : count}
                </span>
              )}
            </button>
          );
        })}
        {(['metrics', 'cell'] as const).map(tab => (
          <button
            className="nbdist-tab nbdist-tab-end"
            key={tab}
            aria-label={words[tab]}
            title={narrow ? words[tab] : undefined}
            {...common(tab)}
          >
            <Icon name={tab} />
            {!narrow && words[tab]}
          </button>
        ))}
      </div>
      {props.pick > 0 && <RankPicker count={props.pick} words={words} onPick={onSelect} />}
    </div>
  );
});

/** A field with all ranks to choose from: type a number, or take one. */
function RankPicker(props: { count: number; words: Words; onPick: (rank: number) => void }): ReactElement {
  const { count, words, onPick } = props;
  const [text, setText] = useState('');
  const options = useId();
  const pick = (written: string): void => {
    if (/^\d+$/.test(written) && Number(written) < count) {
      onPick(Number(written));
      setText('');
    }
  };
  const input = (event: InputEvent<HTMLInputElement>): void => {
    setText(event.currentTarget.value);
    // a choice from the list comes as a whole, what is typed as single letters
    const how = (event.nativeEvent ?? event).inputType;
    if (how === undefined || how === 'insertReplacementText') {
      pick(event.currentTarget.value);
    }
  };
  return (
    <>
      <input
        className="nbdist-picker"
        list={options}
        inputMode="numeric"
        placeholder={words.pickRank}
        aria-label={words.pickRankLabel}
        title={words.pickRankLabel}
        value={text}
        onInput={input}
        onKeyDown={event => event.key === 'Enter' && pick(text.trim())}
      />
      <datalist id={options}>
        {Array.from({ length: count }, (_, rank) => (
          <option key={rank} value={rank} />
        ))}
      </datalist>
    </>
  );
}
