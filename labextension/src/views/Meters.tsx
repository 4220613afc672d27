/** What a rank uses, in the little room it has: a bar, a line of the last two minutes. */
import { memo, type ReactElement } from 'react';
import { milliseconds } from '../numbers';
import type { Words } from '../words';

export function Bar({ fraction }: { fraction: number }): ReactElement {
  return (
    <span className="nbdist-bar" aria-hidden="true">
      <i style={{ width: `${Math.min(100, 100 * fraction)}%` }} />
    </span>
  );
}

const SAMPLES = 60;
const HEIGHT = 16;

interface SparklineProps {
  samples: readonly number[];
  /** what is drawn at the top */
  full: number;
}

/** The newest sample is at the right; a rank that has only begun has a short line. */
export const Sparkline = memo(function Sparkline({ samples, full }: SparklineProps): ReactElement {
  const points = samples.map((sample, at) => {
    const height = Math.min(1, sample / full) * (HEIGHT - 3);
    return `${SAMPLES - samples.length + at},${(HEIGHT - 1.5 - height).toFixed(1)}`;
  });
  return (
    <svg
      className="nbdist-spark"
      viewBox={`0 0 ${SAMPLES - 1} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path className="nbdist-ground" d={`M0 ${HEIGHT - 0.5}H${SAMPLES - 1}`} />
      <polyline points={points.join(' ')} />
    </svg>
  );
});

/** The top of a line of utilisation: all of a GPU, or as many cores as were ever used. */
export function fullUse(samples: readonly number[]): number {
  return Math.max(100, ...samples);
}

interface StepBarProps {
  /** milliseconds */
  step: { own: number; waiting: number };
  /** the figures alone */
  figures: boolean;
  words: Words;
}

/** A step: the rank's own time, then, hatched, what it waits for the others. */
export function StepBar({ step, figures, words }: StepBarProps): ReactElement {
  const [own, waiting] = [milliseconds(step.own), milliseconds(step.waiting)];
  const share = (100 * step.own) / (step.own + step.waiting);
  return (
    <span className="nbdist-row" title={words.ownAndWaiting(own, waiting)}>
      {!figures && (
        <span className="nbdist-step" aria-hidden="true">
          <i style={{ width: `${share}%` }} />
          <i className="nbdist-step-waiting" />
        </span>
      )}
      <span className="nbdist-step-figures">
        {own} <span className="nbdist-quiet">{words.andMilliseconds(waiting)}</span>
      </span>
    </span>
  );
}
