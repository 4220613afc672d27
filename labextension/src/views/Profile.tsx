/** The profile of a run: what each rank did at each moment of some seconds; the button that records it. */
import { type ReactElement, useState } from 'react';

import { PROFILE_PARTS, type RunView } from '../protocol/run';
import { percent } from '../words/formats';
import { localized } from '../words/languages';
import { words } from '../words/panel';
import { Badge, Button, Icon } from './Marks';
import type { Notice } from './Notes';

const COLOURS = ['var(--nb-r0)', 'var(--nb-r7)', 'var(--nb-r5)', 'var(--nb-track)'];

export interface Profiler {
  /** begins to record; false where that is impossible here */
  record: () => Promise<boolean>;
  /** the address of the merged trace */
  trace: () => string;
}

interface RecordButtonProps {
  view: RunView;
  profiler: Profiler;
  notify: (notice: Notice) => void;
}

export function RecordButton({ view, profiler, notify }: RecordButtonProps): ReactElement {
  const time = view.profile?.time ?? 0;
  /** the time of the profile that was there when another one was asked for */
  const [before, setBefore] = useState<number | null>(null);
  const record = async (): Promise<void> => {
    setBefore(time);
    if (!(await profiler.record())) {
      setBefore(null);
      notify({ text: words.cannotRecord(view.label) });
    }
  };
  return <Button label={before === time ? words.recording : words.record} onClick={() => void record()} />;
}

interface ProfileProps {
  view: RunView;
  profiler: Profiler | undefined;
}

export function Profile({ view: { profile }, profiler }: ProfileProps): ReactElement | null {
  const names = PROFILE_PARTS.map(part => words.profileParts[part]);
  return profile ? (
    <div className="nbdist-profile">
      <div className="nbdist-row nbdist-profile-head">
        <b>
          {words.profileOf(profile.seconds.toFixed(1), new Date(1000 * profile.time).toLocaleTimeString())}
        </b>
        {names.map((name, part) => (
          <span key={name} className="nbdist-quiet">
            <i style={{ background: COLOURS[part] }} /> {name}
          </span>
        ))}
        <span className="nbdist-space" />
        {profile.trace && profiler && (
          <a className="nbdist-button" href={profiler.trace()} title={profile.trace} download>
            <Icon name="download" />
            {words.trace}
          </a>
        )}
      </div>
      {profile.ranks.map(({ rank, parts, line, problem }) => (
        <div key={rank} className="nbdist-row">
          <Badge rank={rank} />
          <span
            className="nbdist-profile-line"
            title={PROFILE_PARTS.map((part, at) => `${names[at]} ${percent(100 * parts[part])}`).join(
              words.comma,
            )}
            style={{ background: line && `linear-gradient(to right, ${stops(line)})` }}
          >
            {localized(problem)}
          </span>
        </div>
      ))}
    </div>
  ) : null;
}

/** Return the stops of a gradient without transitions. */
function stops(line: string): string {
  const place = (at: number): string => `${((100 * at) / line.length).toFixed(2)}%`;
  return [...line.matchAll(/(.)\1*/g)]
    .map(
      ({ 0: same, 1: part, index }) =>
        `${COLOURS[Number(part)]} ${place(index)} ${place(index + same.length)}`,
    )
    .join();
}
