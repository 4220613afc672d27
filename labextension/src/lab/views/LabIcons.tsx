/** Icons of the sidebar's and the dashboard's buttons, drawn as the panel's are. */
import type { ReactElement } from 'react';

const ICONS = {
  search: <path d="M11 7a4 4 0 11-8 0 4 4 0 018 0zM10 10l3.5 3.5" />,
  refresh: <path d="M13 8a5 5 0 11-1.5-3.5L13 6M13 2.5V6H9.5" />,
  open: <path d="M3.5 3.5h9v9h-9zM3.5 6.5h9" />,
  attach: <path d="M2.5 8h7M6.5 5l3 3-3 3M9.5 2.5h4v11h-4" />,
  cell: <path d="M5.5 4.5L2.5 8l3 3.5M10.5 4.5l3 3.5-3 3.5" />,
  stop: <rect x="4.5" y="4.5" width="7" height="7" rx="1" />,
  remove: <path d="M3.5 4.5h9M6.5 4.5v-1.5h3v1.5M5 4.5l.5 8.5h5l.5-8.5" />,
  compare: <path d="M2.5 12.5c3 0 3-8 6-8s2 4 5 4M2.5 5.5c3 0 4 6 11 6" />,
  stacks: <path d="M3 4.5h10M5 8h8M7 11.5h6" />,
  board: <path d="M6 3.5H3.5v9h9V10M9 3.5h3.5V7M12.5 3.5L7.5 8.5" />,
  metrics: <path d="M2.5 2.5v11h11M5 10l2.5-3 2 1.5L13 4.5" />,
  download: <path d="M8 2.5v7M5 7l3 3 3-3M3 13h10" />,
  clear: <path d="M4.5 4.5l7 7M11.5 4.5l-7 7" />,
} as const;

export type LabIconName = keyof typeof ICONS;

export function LabIcon({ name }: { name: LabIconName }): ReactElement {
  return (
    <svg className="nbdist-icon" viewBox="0 0 16 16" aria-hidden="true">
      {ICONS[name]}
    </svg>
  );
}

const STALLED = <path d="M3 1.5v7M7 1.5v7" stroke="currentColor" strokeWidth="2" fill="none" />;
const SLOWEST = <path d="M5 1l4.5 8h-9z" fill="currentColor" />;

/** Marks that are no state: two bars for what does nothing, a triangle for who is behind. */
export function ConditionMark({ name }: { name: 'stalled' | 'slowest' }): ReactElement {
  return (
    <svg className="nbdist-mark" data-condition={name} viewBox="0 0 10 10" aria-hidden="true">
      {name === 'stalled' ? STALLED : SLOWEST}
    </svg>
  );
}

interface ButtonProps {
  icon: LabIconName;
  label: string;
  title?: string;
  disabled?: boolean;
  /** the icon alone; the label is its name */
  bare?: boolean;
  pressed?: boolean;
  onClick: () => void;
}

export function LabButton({
  icon,
  label,
  title,
  disabled,
  bare,
  pressed,
  onClick,
}: ButtonProps): ReactElement {
  return (
    <button
      type="button"
      className={bare ? 'nbdist-button nbdist-bare' : 'nbdist-button'}
      aria-label={bare ? label : undefined}
      aria-pressed={pressed}
      title={title ?? (bare ? label : undefined)}
      disabled={disabled}
      onClick={onClick}
    >
      <LabIcon name={icon} />
      {!bare && label}
    </button>
  );
}
