/** Lines under the header: what was asked for and did not happen by itself, and that news have stopped. */
import type { ReactElement } from 'react';
import { clock } from '../numbers';
import type { RunView } from '../protocol';
import type { Words } from '../words';
import { useSeconds } from './clocks';

export interface Notice {
  text: string;
  /** where the reader can go from here */
  link?: string;
  /** said once, then gone */
  brief?: boolean;
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

const QUIET = 15;

interface SilenceProps {
  view: RunView | null;
  viewAt: number;
  heardAt: number;
  foreground: boolean;
  now: () => number;
  words: Words;
}

/** Says so when a run that goes on has not been heard of for a while. */
export function Silence({
  view,
  viewAt,
  heardAt,
  foreground,
  now,
  words,
}: SilenceProps): ReactElement | null {
  const live = view === null || view.live;
  const seconds = useSeconds(now, live);
  if (!live || seconds - heardAt < QUIET) {
    return null;
  }
  if (view === null) {
    return <div className="nbdist-note nbdist-calm">{words.neverNews}</div>;
  }
  const since = clock(view.elapsed + heardAt - viewAt);
  const say = foreground ? words.noNewsForeground : words.noNews;
  return <div className="nbdist-note nbdist-calm">{say(since, view.label)}</div>;
}
