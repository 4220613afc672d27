/** The small drawings: state marks, whose shape says as much as their colour, icons, and the buttons that have them. */
import type { ButtonHTMLAttributes, CSSProperties, ReactElement } from 'react';

import { rankColour } from '../page/nodes';
import type { RankState, RunState } from '../protocol/run';
import { words } from '../words/panel';

const DISC = <circle cx="5" cy="5" r="4" fill="currentColor" />;
const RING = <circle cx="5" cy="5" r="3.5" fill="none" stroke="currentColor" strokeWidth="1.5" />;
const SQUARE = <rect x="1.5" y="1.5" width="7" height="7" fill="currentColor" />;
const CROSS = <path d="M2 2l6 6M8 2L2 8" fill="none" stroke="currentColor" strokeWidth="2" />;
const CHECK = <path d="M1.5 5.5L4 8l4.5-6" fill="none" stroke="currentColor" strokeWidth="1.75" />;
const TRIANGLE = <path d="M5 1l4.5 8h-9z" fill="currentColor" />;
const BARS = <path d="M2 1.5h2v7H2zM6 1.5h2v7H6z" fill="currentColor" />;

const SHAPES = {
  pending: RING,
  starting: RING,
  running: DISC,
  stopping: SQUARE,
  finished: CHECK,
  failed: CROSS,
  stopped: SQUARE,
  lost: TRIANGLE,
  // what a rank does in a run that hangs, and the rank that the others wait for at each step
  held: BARS,
  waits: RING,
  slow: TRIANGLE,
} satisfies Record<RunState | RankState, ReactElement> & Record<string, ReactElement>;

export type MarkState = keyof typeof SHAPES;

export function Mark({ state }: { state: MarkState }): ReactElement {
  return (
    <svg className="nbdist-mark" data-state={state} viewBox="0 0 10 10" aria-hidden="true">
      {SHAPES[state]}
    </svg>
  );
}

const ICONS = {
  again: 'M13 8a5 5 0 11-1.5-3.5M13 2.5v3h-3',
  attach: 'M2.5 8h7M6.5 5l3 3-3 3M9.5 2.5h4v11h-4',
  cell: 'M5.5 4.5L2.5 8l3 3.5M10.5 4.5l3 3.5-3 3.5',
  closed: 'M6 4l4 4-4 4',
  compare: 'M2.5 12.5c3 0 3-8 6-8s2 4 5 4M2.5 5.5c3 0 4 6 11 6',
  close: 'M4.5 4.5l7 7M11.5 4.5l-7 7',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  download: 'M8 2.5v7M5 7l3 3 3-3M3 13h10',
  firstError: 'M8 2.5l6 11H2zM8 6.5v3.5M8 12h.01',
  follow: 'M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10',
  lines: 'M3 4h10M3 8h10M3 12h6',
  metrics: 'M2.5 2.5v11h11M5 10l2.5-3 2 1.5L13 4.5',
  next: 'M4 6l4 4 4-4',
  open: 'M3.5 3.5h9v9h-9zM3.5 6.5h9',
  out: 'M6 3.5H3.5v9h9V10M9 3.5h3.5V7M12.5 3.5L7.5 8.5',
  previous: 'M4 10l4-4 4 4',
  refresh: 'M13 8a5 5 0 11-1.5-3.5L13 6M13 2.5V6H9.5',
  remove: 'M3.5 4.5h9M6.5 4.5v-1.5h3v1.5M5 4.5l.5 8.5h5l.5-8.5',
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5',
  stacks: 'M3 4.5h10M5 8h8M7 11.5h6',
  stop: 'M5.5 4.5h5a1 1 0 011 1v5a1 1 0 01-1 1h-5a1 1 0 01-1-1v-5a1 1 0 011-1z',
  warning: 'M8 2.5l6 10.5H2zM8 6.5v3M8 11.3v.01',
  wrap: 'M2.5 4h11M2.5 8h9a2 2 0 010 4H8M9.5 10.5L8 12l1.5 1.5M2.5 12H5',
} as const;

export type IconName = keyof typeof ICONS;

export function Icon({ name }: { name: IconName }): ReactElement {
  return (
    <svg className="nbdist-icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  label: string;
  icon?: IconName;
  /** the icon alone; the label is its name */
  bare?: boolean;
  /** true where the style sheet may hide the label, which stays the name */
  named?: boolean;
  pressed?: boolean;
}

export function Button({ label, icon, bare, named = bare, pressed, ...given }: ButtonProps): ReactElement {
  const { className = '', children, ...rest } = given;
  return (
    <button
      type="button"
      className={`nbdist-button ${bare ? 'nbdist-bare' : className}`}
      aria-label={named ? label : undefined}
      aria-pressed={pressed}
      title={named ? label : undefined}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {!bare && <span className="nbdist-cut">{label}</span>}
      {children}
    </button>
  );
}

/** Return the style that gives what is inside it the colour of a rank. */
export function inColourOf(rank: number): CSSProperties {
  return { '--nb-c': rankColour(rank) } as CSSProperties;
}

export function Badge({ rank }: { rank: number }): ReactElement {
  return (
    <span className="nbdist-badge" style={inColourOf(rank)}>
      {rank}
    </span>
  );
}

/** Draw the mark of the best of several runs. */
export function BestRun(): ReactElement {
  return (
    <span className="nbdist-best" role="img" aria-label={words.bestRun} title={words.bestRun}>
      ★
    </span>
  );
}
