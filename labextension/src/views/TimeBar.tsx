/** A bar: how the time of a training's steps divides. */
import type { PropsWithChildren, ReactElement } from 'react';

import { type RunView, TIME_PARTS, type TimeParts } from '../protocol/run';
import { percent } from '../words/formats';
import { localized } from '../words/languages';
import { words } from '../words/panel';

/** Share of a part that is drawn. */
const DRAWN = 0.005;
/** the colours of ranks, which are chosen to be read and told apart */
const COLOURS = { data: 1, forward: 0, backward: 5, wait: 7, optimizer: 3, other: 6 } as const;

interface BarProps {
  parts: TimeParts;
  /** false with a GPU: then it is the time of the host */
  onHost: boolean;
  /** a thin bar has no names */
  thin?: boolean;
}

export function TimeBar({ parts, onHost, thin }: BarProps): ReactElement {
  const texts = TIME_PARTS.filter(part => parts[part] >= DRAWN).map(part => ({
    part,
    share: percent(100 * parts[part]),
  }));
  const about =
    words.timeOfStep(onHost) +
    texts.map(({ part, share }) => `${words.columns[part]} ${share}`).join(words.comma);
  return (
    <div className="nbdist-parts" role="img" aria-label={about} title={about} data-thin={thin}>
      {!onHost && !thin && <b>{words.host}</b>}
      {texts.map(({ part, share }) => (
        <span
          key={part}
          data-part={part}
          style={{ flexGrow: parts[part], background: `var(--nb-r${COLOURS[part]})` }}
        >
          {!thin && `${part === 'wait' ? words.wait : words.columns[part]} ${share}`}
        </span>
      ))}
    </div>
  );
}

/** The bar of a run, while it goes on the sentence that names what limits it (afterwards that is one of its notes),
 * and its facts, beside which a host has its buttons. */
export function TrainingNote({ view, children }: PropsWithChildren<{ view: RunView }>): ReactElement | null {
  const { training, live } = view;
  return (
    training && (
      <div className="nbdist-note nbdist-calm">
        <TimeBar parts={training.parts} onHost={training.onHost} />
        {live && <div>{localized(training.limit)}</div>}
        <div className="nbdist-row">
          <span className="nbdist-space nbdist-cut" title={localized(training.text)}>
            {localized(training.text)}
          </span>
          {children}
        </div>
      </div>
    )
  );
}
