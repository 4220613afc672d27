/** The icons of the log's toolbar. */

const SHAPES = {
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5',
  previous: 'M4 10l4-4 4 4',
  next: 'M4 6l4 4 4-4',
  follow: 'M8 2.5v8M4.5 7.5L8 11l3.5-3.5M3 13.5h10',
  pause: 'M6 4v8M10 4v8',
  wrap: 'M2.5 4h11M2.5 8h9a2 2 0 010 4H8M9.5 10.5L8 12l1.5 1.5M2.5 12H5',
  firstError: 'M8 2.5l6 11H2zM8 6.5v3.5M8 12h.01',
  differences: 'M3 6h10M3 10h10M10.5 3l-5 10',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  download: 'M8 2.5v7M5 7l3 3 3-3M3 13h10',
} as const;

export type LogIconName = keyof typeof SHAPES;

export function LogIcon({ name }: { name: LogIconName }) {
  return (
    <svg className="nbdist-icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[name]} />
    </svg>
  );
}
