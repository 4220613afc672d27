/** The panel's tabs: all and the ranks at the left, Metrics and Cell at the right; of many ranks a field picks one. */
import { memo, useId, useMemo, useState, type InputEvent, type ReactElement } from 'react';
import type { Words } from '../words';
import { Icon } from './Marks';
import { TabRow, type Page } from './TabRow';

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
  const { pick, words, onSelect } = props;
  const pages = useMemo(
    () =>
      (['metrics', 'cell'] as const).map((tab): Page<Tab> => ({
        tab,
        name: words[tab],
        icon: <Icon name={tab} />,
      })),
    [words],
  );
  return (
    <div className="nbdist-tabs" data-pick={pick > 0}>
      <TabRow<Tab> {...props} pages={pages} />
      {pick > 0 && <RankPicker count={pick} words={words} onPick={onSelect} />}
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
