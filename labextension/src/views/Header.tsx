/** The first line: state, name, how far, how long, Stop, and the menu of the run. */
import { memo, type ReactElement } from 'react';
import { clock, percent } from '../numbers';
import type { PageAction } from '../page_actions';
import type { Progress, RunView } from '../protocol';
import type { Words } from '../words';
import { useSeconds } from './clocks';
import { HeldMark, Icon, Mark } from './Marks';
import { RunMenu } from './RunMenu';
import { hangs } from './Stall';

export interface HeaderProps {
  view: RunView;
  viewAt: number;
  now: () => number;
  narrow: boolean;
  stopping: boolean;
  words: Words;
  onStop: () => void;
  onCopy: (text: string) => void;
  onBoard: () => void;
  /** where the page does such things for its panels */
  onAct?: ((action: PageAction) => void) | undefined;
}

export const Header = memo(function Header(props: HeaderProps): ReactElement {
  const { view, narrow, words, onAct } = props;
  const stopping = props.stopping || view.state === 'stopping';
  const progress = view.live && view.progress ? <Advance {...props} progress={view.progress} /> : null;
  return (
    <>
      <div className="nbdist-head">
        <span className="nbdist-pill" role="status" data-state={hangs(view) ? 'stalled' : view.state}>
          {hangs(view) ? <HeldMark kind="held" /> : <Mark state={view.state} />}
          {hangs(view) ? words.stalled : words.run[view.state]}
        </span>
        <span className="nbdist-name" title={view.runId}>
          {view.label}
        </span>
        {!narrow && <span className="nbdist-quiet nbdist-count-of-ranks">{sizeOf(view, words)}</span>}
        <span className="nbdist-space" />
        {!narrow && progress}
        {!narrow && <StoppedAt view={view} words={words} />}
        <Elapsed {...props} />
        {view.live && (
          <button type="button" className="nbdist-button" disabled={stopping} onClick={props.onStop}>
            <Icon name="stop" />
            {stopping ? words.stopping : words.stop}
          </button>
        )}
        {!view.live && onAct && (
          <>
            <button type="button" className="nbdist-button" onClick={() => onAct('open')}>
              <Icon name="out" />
              {words.dashboard}
            </button>
            <button type="button" className="nbdist-button" onClick={() => onAct('again')}>
              <Icon name="again" />
              {words.runAgain}
            </button>
          </>
        )}
        <RunMenu
          label={view.label}
          live={view.live}
          words={words}
          onCopy={props.onCopy}
          onBoard={props.onBoard}
          onAct={onAct}
        />
      </div>
      {narrow && progress && <div className="nbdist-head-progress">{progress}</div>}
      {view.reason.en && (view.live ? view.state !== 'stopping' : !view.failure) && (
        <div className="nbdist-note nbdist-calm" role="status">
          {words.told(view.reason)}
        </div>
      )}
    </>
  );
});

function sizeOf(view: RunView, words: Words): string {
  const perNode = new Map<number, number>();
  for (const { node } of view.ranks) {
    perNode.set(node, (perNode.get(node) ?? 0) + 1);
  }
  const sizes = new Set(perNode.values());
  if (perNode.size < 2) {
    return words.ranks(view.ranks.length);
  }
  return sizes.size === 1
    ? words.nodes(perNode.size, [...sizes][0]!)
    : words.unevenNodes(perNode.size, view.ranks.length);
}

function Advance({
  progress,
  narrow,
  words,
}: {
  progress: Progress;
  narrow: boolean;
  words: Words;
}): ReactElement {
  const done = percent(Math.floor(100 * progress.fraction));
  return (
    <>
      {!narrow && progress.text && <span className="nbdist-quiet nbdist-progress-text">{progress.text}</span>}
      <span
        className="nbdist-progress"
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

/** How far a run came that did not come to its end. */
function StoppedAt({ view, words }: { view: RunView; words: Words }): ReactElement | null {
  if (view.live || view.state === 'succeeded' || !view.progress) {
    return null;
  }
  const done = percent(Math.floor(100 * view.progress.fraction));
  return <span className="nbdist-quiet">{words.stoppedAt(done, view.progress.text)}</span>;
}

function Elapsed({ view, viewAt, now, narrow, words }: HeaderProps): ReactElement {
  const seconds = useSeconds(now, view.live);
  const since = view.live ? Math.max(0, seconds - viewAt) : 0;
  return (
    <span className="nbdist-small nbdist-elapsed">
      {clock(view.elapsed + since)}
      {!narrow && <span className="nbdist-quiet"> {words.elapsed}</span>}
    </span>
  );
}
