/** In the status bar: how many ranks run. */
import type { ReactElement } from 'react';

import '../styles/lab.css';
import type { RunRow } from '../services/client';
import { useRuns } from '../services/runs';
import type { IRunService } from '../tokens';
import { words } from '../../words/lab';

interface StatusProps {
  service: IRunService;
  onOpen: () => void;
}

export function StatusItem({ service, onOpen }: StatusProps): ReactElement | null {
  const runs = useRuns(service.runs);
  if (runs.state !== 'ready') {
    return null;
  }
  const live = runs.liveRows;
  const stalled = ranksOf(live.filter(row => row.stalled));
  const idle = ranksOf(live.filter(row => row.idle && !row.stalled));
  return (
    <button type="button" className="nbdist-statusbar" title={words.showRuns} onClick={onOpen}>
      {live.length
        ? words.statusRunning(ranksOf(live) - stalled - idle) +
          (stalled ? words.statusStalled(stalled) : '') +
          (idle ? words.statusWaiting(idle) : '')
        : words.statusIdle}
    </button>
  );
}

function ranksOf(rows: readonly RunRow[]): number {
  return rows.reduce((sum, { worldSize }) => sum + worldSize, 0);
}
