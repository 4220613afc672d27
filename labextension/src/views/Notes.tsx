/** The notes under the header: inputs and results, warnings, silence of the kernel, and the failure. */
import { memo, type ReactElement, useCallback, useEffect, useState } from 'react';

import { pageNow, type RunModel } from '../model/run_model';
import { copy } from '../page/nodes';
import { type PageAction, pageActs } from '../page/actions';
import type { BoardAnswer, FailureView, RunView } from '../protocol/run';
import { localized } from '../words/languages';
import { words } from '../words/panel';
import { Code } from './Code';
import { Badge, Button } from './Marks';

/** milliseconds */
const BRIEFLY = 5000;
/** seconds */
const SILENT_SECONDS = 15;

export interface Notice {
  text: string;
  /** address that the reader can open */
  link?: string;
  /** said once, then gone */
  brief?: boolean;
  /** true of a run that goes on alone */
  live?: boolean;
}

/** Return the notice that the reader has to interrupt the cell by hand. */
export function cannotStop(label: string): Notice {
  return { text: words.cannotStop(label), live: true };
}

/** Return the last notice, and what shows another. */
export function useNotice(): [Notice | null, (notice: Notice) => void] {
  const [notice, setNotice] = useState<Notice | null>(null);
  useEffect(() => {
    if (!notice?.brief) {
      return;
    }
    const timer = setTimeout(() => setNotice(null), BRIEFLY);
    return () => clearTimeout(timer);
  }, [notice]);
  return [notice, setNotice];
}

export function Note({ notice }: { notice: Notice }): ReactElement {
  return (
    <div className="nbdist-note" role="status">
      {notice.text}{' '}
      {notice.link && (
        <a href={notice.link} target="_blank" rel="noreferrer">
          {notice.link}
        </a>
      )}
    </div>
  );
}

/** Return what copies a text, and says so: briefly, or by `message` until there is another. */
export function useCopying(onNotice: (notice: Notice) => void): (text: string, message?: string) => void {
  return useCallback(
    (text, message) => {
      void copy(text).then(done =>
        onNotice(
          done ? { text: message ?? words.copied(text), brief: !message } : { text: words.notCopied(text) },
        ),
      );
    },
    [onNotice],
  );
}

/** Open VisualDL in another tab, at once: browsers block a tab that opens long after the click. */
export async function openBoard(
  answers: Promise<Pick<BoardAnswer, 'url' | 'problem'> | null>,
  label: string,
  notify: (notice: Notice) => void,
): Promise<void> {
  notify({ text: words.boardAsked });
  const tab = window.open('', '_blank');
  if (tab !== null) {
    tab.document.body.textContent = words.boardAsked;
  }
  const answer = await answers;
  const url = answer && webAddress(answer.url);
  if (!answer || answer.problem || !url) {
    tab?.close();
    notify({ text: answer ? words.boardProblem(answer.problem || answer.url) : words.boardLater(label) });
  } else if (tab === null || tab.closed) {
    notify({ text: words.boardBlocked, link: url });
  } else {
    tab.opener = null;
    tab.location.replace(url);
    notify({ text: words.boardAt, brief: true });
  }
}

/** Return the whole address, null for what is no page (`javascript:`). */
export function webAddress(url: string): string | null {
  try {
    const whole = new URL(url, location.href);
    return url && /^https?:$/.test(whole.protocol) ? whole.href : null;
  } catch {
    return null;
  }
}

/** Draw the inputs from the notebook and the results of the ranks, each in a row. */
export function InputsAndResults({ view }: { view: RunView }): ReactElement | null {
  // among several ranks each result is of one, as the last values are of all
  const first = view.ranks.length > 1 ? '0' : '';
  const rows = [
    { title: words.inputs, ...view.inputs, first: '' },
    { title: words.results, ...view.results, first },
  ].filter(({ values }) => values.length > 0);
  return rows.length ? (
    <dl className="nbdist-given">
      {rows.map(({ title, values, more, first }) => (
        <div key={title}>
          <dt className="nbdist-quiet">{title}</dt>
          {values.map(({ name, about, ranks }) => (
            <dd key={name}>
              <code>{name}</code>{' '}
              <span className="nbdist-quiet">
                {localized(about)}
                {(ranks || first) && ` · ${words.rankNumber(ranks || first)}`}
              </span>
            </dd>
          ))}
          {more > 0 && <dd className="nbdist-quiet">+{more}</dd>}
        </div>
      ))}
    </dl>
  ) : null;
}

/** Return true when no message of a live run has come for a while: then the page does not know how it stands. */
export function useSilence(run: RunModel): boolean {
  const isSilent = useCallback(() => pageNow() - run.heardAt >= SILENT_SECONDS, [run]);
  const [silent, setSilent] = useState(isSilent);
  const live = run.view?.live !== false;
  useEffect(() => {
    if (!live) {
      return;
    }
    const timer = setInterval(() => setSilent(isSilent), 1000);
    return () => clearInterval(timer);
  }, [isSilent, live]);
  return live && silent;
}

interface FailureProps {
  failure: FailureView;
  cell: string | null;
  onCellLine: (line: number) => void;
  onOpen: (rank: number) => void;
  /** the checkpoint from which the run can be resumed, if any */
  checkpoint?: string;
  onAct?: ((action: PageAction) => void) | undefined;
  /** copies a report */
  report?: ReactElement | undefined;
}

/** Draw the first failure: who, what, where, and the ways to it. */
export const Failure = memo(function Failure(props: FailureProps): ReactElement {
  const { failure, cell, onCellLine, onOpen, checkpoint, onAct } = props;
  const { rank, line, message, fileLine, source, calls } = failure;
  const headline = localized(failure.headline);
  const hints = [
    [words.cause, [localized(failure.cause)]],
    [words.fix, [localized(failure.fix)]],
    [words.known, failure.notes.map(({ text }) => localized(text))],
  ] as const;
  const given = hints.filter(([, lines]) => lines.some(Boolean));
  return (
    <div className="nbdist-failure" role="alert">
      <div className="nbdist-row">
        <Badge rank={rank} />
        <b>{headline.charAt(0).toUpperCase() + headline.slice(1)}</b>
      </div>
      {calls.length > 1 && <Calls calls={calls} onCellLine={onCellLine} />}
      {calls.length < 2 && source && fileLine !== null && (
        <Code source={source} line={fileLine} first={fileLine} />
      )}
      {calls.length < 2 && !source && cell !== null && line !== null && (
        <Code source={cell} line={line} around={2} />
      )}
      {message && <p className="nbdist-error-line">{message}</p>}
      {given.length > 0 && (
        <dl className="nbdist-hint">
          {given.map(([name, lines]) => (
            <div key={name}>
              <dt className="nbdist-quiet">{name}</dt>
              <dd>
                {lines.map(line => (
                  <div key={line}>{line}</div>
                ))}
              </dd>
            </div>
          ))}
        </dl>
      )}
      <div className="nbdist-row">
        {line !== null && <Button icon="cell" label={words.toCell(line)} onClick={() => onCellLine(line)} />}
        <Button icon="lines" label={words.toLog(rank)} onClick={() => onOpen(rank)} />
        {onAct && checkpoint && (
          <Button icon="again" label={words.resumeFrom(checkpoint)} onClick={() => onAct('resume')} />
        )}
        {props.report}
      </div>
    </div>
  );
});

/** Draw the way to the failure: from the cell into modules, each line a link to its place. */
function Calls({
  calls,
  onCellLine,
}: Pick<FailureProps, 'onCellLine'> & Pick<FailureView, 'calls'>): ReactElement {
  const opens = pageActs();
  return (
    <ol className="nbdist-calls" aria-label={words.calls}>
      {calls.map(({ file, path, line, first, source }, at) => {
        const name = file ? `${file} ${line}` : words.cellLine(line);
        return (
          <li key={at}>
            {file && !opens ? (
              <code>{name}</code>
            ) : (
              <button
                type="button"
                className="nbdist-link"
                {...(file
                  ? { 'data-nbdist-file': path, 'data-nbdist-line': line }
                  : { onClick: () => onCellLine(line) })}
              >
                {name}
              </button>
            )}
            {source && <Code source={source} line={line} first={first} />}
          </li>
        );
      })}
    </ol>
  );
}
