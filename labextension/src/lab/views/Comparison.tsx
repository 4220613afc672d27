/** Several runs beside each other: a table of what differs, their programs, and their curves over each other. */
import { type ReactElement, type RefObject, useCallback, useEffect, useRef, useState } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import type { Compared } from '../../model/comparison';
import { ComparedRuns } from '../../views/compare/ComparedRuns';
import { useAnswer, useSize, useTheme } from '../../views/hooks';
import type { Client } from '../services/client';
import { COMMANDS, type Execute, type IRunService } from '../tokens';
import { localized } from '../../words/languages';
import { words } from '../../words/lab';

/** letters of a name in a chart; of a longer one the end, where runs of one name differ */
const ROOM = 24;
/** pixels */
const PLOT_PX = 300;
/** milliseconds between two looks at runs of which one goes on */
const POLL_MS = 3000;

interface ComparisonProps {
  runIds: readonly string[];
  service: IRunService;
  execute: Execute;
}

export function Comparison({ runIds, service, execute }: ComparisonProps): ReactElement {
  const { client } = service;
  const root = useRef<HTMLElement>(null);
  const size = useSize(root);
  const { theme } = useTheme();
  const { answer: compared, problem } = useComparison(client, runIds, root);
  const open = useCallback((runId: string) => execute(COMMANDS.open, { runId }), [execute]);
  const names = (compared?.runs ?? []).map(({ label }) =>
    label.length > ROOM ? `…${label.slice(-ROOM)}` : label,
  );
  return (
    <section
      className="nbdist nbdist-dash nbdist-compare"
      role="region"
      aria-label={words.compareTitle}
      ref={root}
      data-size={size}
      data-theme={theme}
    >
      {problem && <p className="nbdist-empty">{words.compareFailed(problem)}</p>}
      {!compared && !problem && (
        <p className="nbdist-empty" role="status">
          {words.loading}
        </p>
      )}
      {compared?.changed.map(({ runId, against, changes }) => (
        <div key={runId} className="nbdist-note nbdist-calm">
          {words.changed(letterOf(compared, runId), letterOf(compared, against))}
          {changes.map(({ text, fixes }, at) => (
            <div key={text.en}>
              {at + 1}. {localized(text)}
              {fixes.map(fix => (
                <div key={fix}>
                  <code>{fix}</code>
                </div>
              ))}
            </div>
          ))}
        </div>
      ))}
      {compared && (
        <ComparedRuns compared={compared} names={names} curveNames={names} height={PLOT_PX} onOpen={open}>
          {compared.runs.length > 1 && <Programs client={client} compared={compared} />}
        </ComparedRuns>
      )}
    </section>
  );
}

function letterOf({ runs }: Compared, runId: string): string {
  return runs.find(run => run.runId === runId)?.letter ?? '';
}

/** Return the compared runs, requested again while one is live and the page is visible. */
function useComparison(
  client: Client,
  runIds: readonly string[],
  root: RefObject<HTMLElement | null>,
): { answer: Compared | null; problem: string } {
  const ids = runIds.join();
  const [time, setTime] = useState(0);
  const ask = useCallback(() => client.compare(ids.split(','), true), [client, ids]);
  const { answer, problem, asking } = useAnswer(ask, time);
  const changes = !asking && (problem !== '' || answer!.runs.some(({ live }) => live));
  useEffect(() => {
    // a tab that is not in front has no size
    const askAgain = (): void => void (root.current?.clientWidth !== 0 && setTime(last => last + 1));
    const timer = changes ? setInterval(askAgain, POLL_MS) : undefined;
    return () => clearInterval(timer);
  }, [changes, root]);
  return { answer, problem };
}

/** Draw the differences between the programs of two runs. */
function Programs({ client, compared }: { client: Client; compared: Compared }): ReactElement {
  const [pair, setPair] = useState<readonly [number, number]>([0, 1]);
  const [before = '', after = ''] = pair.map(run => compared.runs[run]?.runId);
  const ask = useCallback(async () => {
    const same = { diffs: [{ lines: [] }] };
    const { diffs } = before === after ? same : await client.compare([before, after], false);
    return { lines: diffs[0]?.lines ?? null };
  }, [client, before, after]);
  const { answer, problem } = useAnswer(ask);
  const lines = problem ? null : answer?.lines;
  const choice = (which: 0 | 1, label: string): ReactElement => (
    <label className="nbdist-row">
      <span className="nbdist-quiet">{label}</span>
      <select
        className="nbdist-field"
        value={pair[which]}
        onChange={event => {
          const run = Number(event.currentTarget.value);
          setPair(which ? [pair[0], run] : [run, pair[1]]);
        }}
      >
        {compared.runs.map(({ runId, letter, label }, run) => (
          <option key={runId} value={run}>
            {letter} {label}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <details className="nbdist-programs" open={compared.runs.length === 2}>
      <summary>{words.programs}</summary>
      <div className="nbdist-row nbdist-programs-pair">
        {choice(0, words.programBefore)}
        {choice(1, words.programAfter)}
      </div>
      {lines === null && <p className="nbdist-quiet">{words.unknownProgram}</p>}
      {lines?.length === 0 && <p className="nbdist-quiet">{words.sameProgram}</p>}
      {lines && lines.length > 0 && (
        // a region that scrolls can be reached with the keyboard
        <div className="nbdist-diff" role="region" aria-label={words.programs} tabIndex={0}>
          {lines.map((line, at) => (
            <div key={at} data-kind={KINDS[line[0] ?? '']}>
              {line || ' '}
            </div>
          ))}
        </div>
      )}
    </details>
  );
}

const KINDS: Readonly<Record<string, string>> = { '+': 'more', '-': 'less', '@': 'place' };
