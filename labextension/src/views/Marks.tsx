/** The small drawings: state marks, whose shape says as much as their colour, and the icons of buttons. */
import type { ReactElement } from 'react';
import type { RankState, RunState } from '../protocol';

const DISC = <circle cx="5" cy="5" r="4" fill="currentColor" />;
const RING = <circle cx="5" cy="5" r="3.5" fill="none" stroke="currentColor" strokeWidth="1.5" />;
const DASHED = (
  <circle
    cx="5"
    cy="5"
    r="3.5"
    fill="none"
    stroke="currentColor"
    strokeWidth="1.5"
    strokeDasharray="2.2 1.5"
  />
);
const SQUARE = <rect x="1.5" y="1.5" width="7" height="7" fill="currentColor" />;
const CROSS = <path d="M2 2l6 6M8 2L2 8" fill="none" stroke="currentColor" strokeWidth="2" />;
const CHECK = <path d="M1.5 5.5L4 8l4.5-6" fill="none" stroke="currentColor" strokeWidth="1.75" />;
const TRIANGLE = <path d="M5 1l4.5 8h-9z" fill="currentColor" />;

const BARS = <path d="M2 1.5h2v7H2zM6 1.5h2v7H6z" fill="currentColor" />;

const SHAPES: Readonly<Record<RunState | RankState, ReactElement>> = {
  pending: DASHED,
  starting: RING,
  running: DISC,
  stopping: SQUARE,
  succeeded: CHECK,
  failed: CROSS,
  cancelled: SQUARE,
  ended: SQUARE,
  lost: TRIANGLE,
};

export function Mark({
  state,
  title,
}: {
  state: RunState | RankState;
  title?: string | undefined;
}): ReactElement {
  return (
    <svg className="nbdist-mark" data-state={state} viewBox="0 0 10 10" aria-hidden="true">
      {title && <title>{title}</title>}
      {SHAPES[state]}
    </svg>
  );
}

/** A rank that waits for its turn is drawn as a ring, a run that is queued as a dashed one. */
export function RankMark({ state, title }: { state: RankState; title?: string | undefined }): ReactElement {
  return (
    <svg className="nbdist-mark" data-state={state} viewBox="0 0 10 10" aria-hidden="true">
      {title && <title>{title}</title>}
      {state === 'pending' ? RING : SHAPES[state]}
    </svg>
  );
}

/** What a rank does in a run that hangs, and the rank that the others wait for at each step. */
export function HeldMark({
  kind,
  title,
}: {
  kind: 'held' | 'waits' | 'slow';
  title?: string | undefined;
}): ReactElement {
  return (
    <svg className="nbdist-mark" data-state={kind} viewBox="0 0 10 10" aria-hidden="true">
      {title && <title>{title}</title>}
      {kind === 'held' ? BARS : kind === 'slow' ? TRIANGLE : RING}
    </svg>
  );
}

const ICONS = {
  warning: <path d="M8 2.5l6 10.5H2zM8 6.5v3M8 11.3v.01" />,
  again: <path d="M13 8a5 5 0 11-1.5-3.5M13 2.5v3h-3" />,
  download: <path d="M8 2.5v7M5 7l3 3 3-3M3 13h10" />,
  stop: <rect x="4.5" y="4.5" width="7" height="7" rx="1" />,
  menu: <path d="M3.5 8h.01M8 8h.01M12.5 8h.01" strokeWidth="2" />,
  metrics: <path d="M2.5 2.5v11h11M5 10l2.5-3 2 1.5L13 4.5" />,
  cell: <path d="M5.5 4.5L2.5 8l3 3.5M10.5 4.5l3 3.5-3 3.5" />,
  out: <path d="M6 3.5H3.5v9h9V10M9 3.5h3.5V7M12.5 3.5L7.5 8.5" />,
  lines: <path d="M3 4h10M3 8h10M3 12h6" />,
  close: <path d="M4.5 4.5l7 7M11.5 4.5l-7 7" />,
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name }: { name: IconName }): ReactElement {
  return (
    <svg className="nbdist-icon" viewBox="0 0 16 16" aria-hidden="true">
      {ICONS[name]}
    </svg>
  );
}

/** The class that gives what is inside it the colour of a rank. */
export function rankColour(rank: number): string {
  return `nbdist-c${rank % 8}`;
}

export function Badge({ rank }: { rank: number }): ReactElement {
  return <span className={`nbdist-badge ${rankColour(rank)}`}>{rank}</span>;
}
