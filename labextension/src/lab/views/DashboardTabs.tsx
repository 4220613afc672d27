/** The dashboard's tabs: all and the ranks at the left; stacks, VisualDL, metrics and the cell at the right. */
import { memo, type ReactElement } from 'react';

import { TabRow } from '../../views/TabRow';
import type { Words } from '../../words';
import type { LabWords } from '../words';
import { LabIcon } from './LabIcons';

export type DashboardTab = 'all' | number | 'stacks' | 'board' | 'metrics' | 'cell';

const PAGES = ['stacks', 'board', 'metrics', 'cell'] as const;

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
  const { live, words, panelWords, ...row } = props;
  const names = {
    stacks: words.stacks,
    board: words.board,
    metrics: panelWords.metrics,
    cell: panelWords.cell,
  };
  // of a run that has ended no stack can be taken
  const pages = PAGES.filter(page => page !== 'stacks' || live);
  return (
    <div className="nbdist-tabs">
      <TabRow<DashboardTab>
        {...row}
        words={panelWords}
        pages={pages.map(tab => ({ tab, name: names[tab], icon: <LabIcon name={tab} /> }))}
      />
    </div>
  );
});
