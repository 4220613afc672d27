/** What a dashboard shows in the place of the log. */
import type { ReactElement } from 'react';

import type { RunModel } from '../../model';
import { CellPane } from '../../views/Code';
import { Metrics } from '../../views/Metrics';
import type { IRunService } from '../tokens';
import { BoardPane } from './BoardPane';
import type { DashboardTab } from './DashboardTabs';
import { StacksPane } from './StacksPane';

interface PageProps {
  page: Exclude<DashboardTab, 'all' | number>;
  runId: string;
  model: RunModel;
  service: IRunService;
  look: number;
  /** the line of the cell that was asked for */
  line: number | null;
  onBoard: () => void;
  onCellLine: (line: number) => void;
}

export function DashboardPage(props: PageProps): ReactElement {
  const { page, runId, model, service, look, line, onBoard, onCellLine } = props;
  const { client, words, panelWords } = service;
  const { view } = model;
  switch (page) {
    case 'metrics':
      return <Metrics charts={model.charts} look={look} words={panelWords} onBoard={onBoard} />;
    case 'cell':
      return <CellPane source={model.cell} line={line ?? view?.failure?.line ?? null} words={panelWords} />;
    case 'board':
      return <BoardPane client={client} runIds={[runId]} words={words} openBoard={panelWords.openBoard} />;
    case 'stacks':
      return <StacksPane runId={runId} service={service} onCellLine={onCellLine} />;
  }
}
