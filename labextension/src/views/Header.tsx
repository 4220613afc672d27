/** The first line of a run: state, name, how far, how long, Stop, and the menu of what is done seldom. */
import { memo, type ReactElement, useEffect, useRef, useState } from 'react';

import { clock, doneText, dotted } from '../words/formats';
import type { PageAction } from '../page/actions';
import type { Progress, RunView } from '../protocol/run';
import { localized } from '../words/languages';
import { words } from '../words/panel';
import { Button, Mark } from './Marks';
import { hangs } from './Stall';
import { useDelayed, useElapsed } from './hooks';

interface HeaderProps {
  view: RunView;
  /** arrival of `view`, in the page's seconds */
  viewAt: number;
  /** the seconds to show while nothing is known of the run */
  knownUntil?: number | undefined;
  narrow: boolean;
  stopping: boolean;
  onStop: () => void;
  onCopy: (text: string) => void;
  onBoard: (() => void) | null;
  /** copies the cell with the line that would start it, where that is known */
  onCopyCell?: (() => void) | undefined;
  /** the step at which the run was stopped, where its reason does not say it */
  step?: number | null;
  /** copies a report, where nothing below the head has that button */
  report?: ReactElement | undefined;
  /** folds the details away: the figures in their place, and the id of their element */
  fold?: { open: boolean; figures: string; body: string; toggle: () => void } | undefined;
  /** actions of the page for its panels, if any */
  onAct?: ((action: PageAction) => void) | undefined;
}

/** characters of a reason that has room in the first line */
const SHORT = 60;

/** Milliseconds after which a stop can be hastened; a request before counts as one with the first. */
const AS_ONE = 1500;

export const Header = memo(function Header(props: HeaderProps): ReactElement {
  const { view, narrow, onAct, fold } = props;
  const { live, checkpoint } = view;
  const { length } = view.reason.en;
  const reason = localized(view.reason) + (props.step ? words.comma + words.atStep(props.step) : '');
  const inline = view.state === 'stopped' && !view.failure && 0 < length && length < SHORT;
  const endedAt = !live && view.state !== 'finished' ? view.progress : null;
  // the buttons that stand where Stop was take no click meant for it
  const rests = useDelayed(live, AS_ONE) && !live;
  const progress = live && view.progress && <RunProgress progress={view.progress} narrow={narrow} />;
  return (
    <>
      <div className="nbdist-row nbdist-head">
        <span className="nbdist-pill" role="status" data-state={hangs(view) ? 'stalled' : view.state}>
          <Mark state={hangs(view) ? 'held' : view.idle ? 'pending' : view.state} />
          {stateWord(view)}
        </span>
        <span className="nbdist-name" title={view.runId}>
          {view.label}
        </span>
        {fold && (
          <Button
            icon={fold.open ? 'next' : 'closed'}
            label={dotted(sizeOf(view), clock(view.elapsed), fold.figures)}
            className="nbdist-details"
            aria-expanded={fold.open}
            aria-controls={fold.body}
            title={fold.open ? words.hideDetails : words.showDetails}
            onClick={fold.toggle}
          />
        )}
        {!narrow && !fold && <span className="nbdist-quiet nbdist-count-of-ranks">{sizeOf(view)}</span>}
        {!narrow && view.resumed && <span className="nbdist-quiet">{words.goesOnFrom(view.resumed)}</span>}
        <span className="nbdist-space" />
        {!narrow && progress}
        {!narrow && inline && <span role="status">{reason}</span>}
        {!narrow && !inline && endedAt && (
          <span className="nbdist-quiet">{words.stoppedAt(doneText(endedAt), endedAt.text)}</span>
        )}
        {!fold && <Elapsed {...props} />}
        {live && <StopButton stopping={props.stopping || view.state === 'stopping'} onStop={props.onStop} />}
        {!live && onAct && (
          <>
            {!(narrow && checkpoint) && (
              <Button icon="out" label={words.dashboard} disabled={rests} onClick={() => onAct('open')} />
            )}
            {checkpoint && (
              <Button
                icon="again"
                label={words.resumeFrom(checkpoint)}
                disabled={rests}
                onClick={() => onAct('resume')}
              />
            )}
            <Button icon="again" label={words.runAgain} disabled={rests} onClick={() => onAct('again')} />
          </>
        )}
        <RunMenu {...props} />
      </div>
      {narrow && progress && <div className="nbdist-row nbdist-head-progress">{progress}</div>}
      {length > 0 && !(inline && !narrow) && (live ? view.state !== 'stopping' : !view.failure) && (
        <div className="nbdist-note nbdist-calm nbdist-row">
          <span role="status">{reason}</span>
          <span className="nbdist-space" />
          {props.report}
        </div>
      )}
    </>
  );
});

/** Draw Stop, and later Stop now, which cuts a save short: never under the pointer that has clicked Stop. */
function StopButton({ stopping, onStop }: { stopping: boolean; onStop: () => void }): ReactElement {
  const [hastens, setHastens] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const offer = (): void => {
      if (stopping && place.current?.matches(':hover') === false) {
        setHastens(true);
      }
    };
    const timer = setInterval(offer, AS_ONE);
    return () => {
      clearInterval(timer);
      setHastens(false);
    };
  }, [stopping]);
  const stop = (): void => {
    setHastens(false);
    onStop();
  };
  return (
    <span ref={place}>
      <Button
        icon="stop"
        label={hastens ? words.stopNow : stopping ? words.stopping : words.stop}
        title={hastens ? words.stopNowTitle : undefined}
        disabled={stopping && !hastens}
        onClick={stop}
      />
    </span>
  );
}

/** Return the word for a run's state. */
function stateWord(view: RunView): string {
  return hangs(view) ? words.stalled : view.idle ? words.idle : words.run[view.state];
}

function sizeOf({ ranks }: RunView): string {
  const nodes = new Set(ranks.map(({ node }) => node)).size;
  return nodes < 2 ? words.ranks(ranks.length) : words.nodes(nodes, ranks.length);
}

function RunProgress({ progress, narrow }: { progress: Progress; narrow: boolean }): ReactElement {
  const done = doneText(progress);
  return (
    <>
      {!narrow && progress.text && <span className="nbdist-quiet nbdist-cut">{progress.text}</span>}
      <span
        className="nbdist-bar nbdist-progress"
        role="progressbar"
        aria-label={words.progress}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.floor(100 * progress.fraction)}
        aria-valuetext={`${done} ${progress.text}`}
      >
        <i style={{ width: `${100 * progress.fraction}%` }} />
      </span>
      <span className="nbdist-small">
        <b>{done}</b>
        {progress.remaining !== null && (
          <span className="nbdist-quiet"> {words.left(clock(progress.remaining))}</span>
        )}
      </span>
    </>
  );
}

function Elapsed({ view, viewAt, knownUntil, narrow }: HeaderProps): ReactElement {
  const elapsed = useElapsed(view, viewAt);
  const time = clock(knownUntil ?? elapsed);
  return <span className="nbdist-small nbdist-elapsed">{narrow ? time : words.elapsed(time)}</span>;
}

type MenuItem = readonly [name: string, act: () => void];

function menuItems({ view, narrow, onCopy, onBoard, onAct, onCopyCell }: HeaderProps): readonly MenuItem[] {
  const { label, live } = view;
  const items: readonly (MenuItem | false | null | undefined)[] = [
    // of a run that has ended the head has these as buttons
    onAct && (live || (narrow && view.checkpoint !== '')) && [words.openDashboard, () => onAct('open')],
    onAct && !live && [words.runAgainWith, () => onAct('againWith')],
    onCopyCell && !onAct && !live && [words.copyCell, onCopyCell],
    [words.exportRun, () => (onAct ? onAct('export') : onCopy(`%dist_export ${label}`))],
    [words.copyName, () => onCopy(label)],
    [words.showAgain, () => onCopy(`%dist_attach ${label}`)],
    onBoard && [words.openBoard, onBoard],
  ];
  return items.filter((item): item is MenuItem => Boolean(item));
}

/** Draw the ⋯ menu of a run: the browser's own list, which no short output cuts off. */
function RunMenu(props: HeaderProps): ReactElement {
  const items = menuItems(props);
  return (
    <select
      className="nbdist-button nbdist-bare nbdist-menu"
      aria-label={words.menu}
      title={words.menu}
      value=""
      onChange={({ currentTarget }) => {
        const [, act] = items.find(([name]) => name === currentTarget.value)!;
        currentTarget.value = '';
        act();
      }}
    >
      <option value="" hidden>
        ⋯
      </option>
      {items.map(([name]) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
