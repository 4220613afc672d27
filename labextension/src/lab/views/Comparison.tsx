/** Curves of several runs over each other. A run has the colour that the rank of its number has elsewhere. */
import { type ReactElement, useRef, useState } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import type { RunModel } from '../../model';
import { clock } from '../../numbers';
import { Badge, Mark, rankColour } from '../../views/Marks';
import { Metrics, useOverlay } from '../../views/Metrics';
import { useSize, useTheme } from '../../views/hooks';
import { pageWords } from '../../words';
import { shownNames } from '../listing';
import { useRuns } from '../runs';
import { COMMANDS, type Execute, type IRunService } from '../tokens';
import { labWords } from '../words';
import { BoardPane } from './Panes';

/** letters of a name in a chart, above which what others have, too, is left out */
const ROOM = 20;

interface ComparisonProps {
  runIds: readonly string[];
  models: readonly RunModel[];
  service: IRunService;
  execute: Execute;
}

export function Comparison({ runIds, models, service, execute }: ComparisonProps): ReactElement {
  const { client } = service;
  const words = labWords();
  const panelWords = pageWords();
  const runs = useRuns(service.runs);
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const { theme, look } = useTheme();
  const [board, setBoard] = useState(false);
  const charts = useOverlay(models);
  const names = shownNames(runIds.flatMap(runId => runs.row(runId) ?? []));
  const labels = runIds.map((runId, at) => names.get(runId)?.text ?? models[at]?.view?.label ?? runId);
  const short = runIds.map((runId, at) => {
    const { text, from } = names.get(runId) ?? { text: labels[at]!, from: 0 };
    return text.length > ROOM && from > 1 ? `…${text.slice(from)}` : text;
  });
  return (
    <section
      className="nbdist nbdist-dash"
      role="region"
      aria-label={words.compareTitle}
      ref={root}
      data-size={size}
      data-theme={theme}
    >
      <ul className="nbdist-legend" aria-label={words.compareTitle}>
        {runIds.map((runId, at) => {
          const view = models[at]?.view;
          return (
            <li key={runId} className={rankColour(at)}>
              <Badge rank={at} />
              <button
                type="button"
                className="nbdist-rank-link nbdist-name"
                onClick={() => execute(COMMANDS.open, { runId })}
              >
                {labels[at]}
              </button>
              {view && <Mark state={view.state} />}
              {view && (
                <span className="nbdist-quiet">
                  {panelWords.run[view.state]} · {clock(view.elapsed)} · {panelWords.ranks(view.ranks.length)}
                </span>
              )}
            </li>
          );
        })}
      </ul>
      <div className="nbdist-dash-pane" data-page="metrics">
        {board ? (
          <BoardPane client={client} runIds={runIds} />
        ) : (
          <Metrics charts={charts} names={short} look={look} onBoard={() => setBoard(true)} />
        )}
      </div>
    </section>
  );
}
