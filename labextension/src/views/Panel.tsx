/** A run below its cell. */
import { type ReactElement, type RefObject, useRef } from 'react';

import type { RunModel } from '../model/run_model';
import { words } from '../words/panel';
import { RunPage, type RunPageProps } from './RunPage';

interface PanelProps extends Pick<RunPageProps, 'host' | 'onShown' | 'connected' | 'notes'> {
  run: RunModel;
  /** false when the reader has asked for the run after its end */
  folds?: boolean;
  /** gets the panel's element */
  root?: RefObject<HTMLElement | null>;
}

export function Panel({ run, folds = true, root, ...props }: PanelProps): ReactElement {
  const own = useRef<HTMLElement>(null);
  return (
    <RunPage
      {...props}
      model={run}
      root={root ?? own}
      inCell
      folds={folds}
      label=""
      empty={<div className="nbdist-row nbdist-head nbdist-quiet">{words.waiting}</div>}
    />
  );
}
