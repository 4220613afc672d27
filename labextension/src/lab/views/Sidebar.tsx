/** The list of runs: those that go on, then the days before. The browser lays out the rows in view alone. */
import {
  Fragment,
  type KeyboardEvent,
  type MouseEvent,
  type ReactElement,
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import { Button, Icon } from '../../views/Marks';
import { useSeconds, useTheme } from '../../views/hooks';
import type { RunRow } from '../services/client';
import { type Entry, listing, standing, type SweepRows } from '../services/listing';
import { useRuns } from '../services/runs';
import { COMMANDS, type Execute, type IRunService } from '../tokens';
import { words } from '../../words/lab';
import { words as panelWords } from '../../words/panel';
import { RunItem, SweepItem } from './RunItem';

/** pixels from the end at which the next page is asked for */
const NEAR_END = 1000;

/** Return Unix seconds. */
const unixNow = (): number => Date.now() / 1000;

/** Return the runs that an entry stands for. */
const rowsOf = (entry: Entry | undefined): readonly RunRow[] =>
  !entry ? [] : entry.kind === 'sweep' ? entry.sweep.rows : [entry.row];

const keyOf = (entry: Entry): string => (entry.kind === 'sweep' ? entry.sweep.sweepId : entry.row.runId);

/** the keys that show the runs of a sweep, hide them, or either */
const UNFOLDS: Record<string, boolean | undefined> = { ArrowRight: true, ArrowLeft: false, Enter: undefined };

interface SidebarProps {
  service: IRunService;
  execute: Execute;
  /** open the menu of a run at a place on the page; `checked` are the runs to compare */
  openMenu: (at: { x: number; y: number }, runId: string, checked: string[]) => void;
}

export function Sidebar({ service, execute, openMenu }: SidebarProps): ReactElement {
  const runs = useRuns(service.runs);
  const { theme } = useTheme();
  const scroller = useRef<HTMLDivElement>(null);
  const [currentId, setCurrentId] = useState<string | null>(null);
  const [checked, setChecked] = useState<ReadonlySet<string>>(new Set());
  const [search, setSearch] = useState(runs.search);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const prefix = useId();
  const rows = runs.rows;
  const seconds = useSeconds(
    rows.some(row => row.live),
    unixNow,
  );
  const minute = Math.floor(seconds / 60) * 60;
  // of what was looked for each run is shown, below its sweep
  const opened = runs.search ? null : open;
  const groups = useMemo(() => listing(rows, minute * 1000, opened), [rows, minute, opened]);
  const entries = useMemo(() => groups.flatMap(group => group.entries), [groups]);
  const at = entries.findIndex(entry => keyOf(entry) === currentId);
  const current = entries[at];

  const idOf = (entry: Entry): string => `${prefix}-${keyOf(entry)}`;

  const askMore = useCallback((): void => {
    const { scrollHeight = 0, scrollTop = 0, clientHeight = 0 } = scroller.current ?? {};
    // a list that is hidden has no height
    if (clientHeight > 0 && scrollHeight - scrollTop - clientHeight < NEAR_END) {
      void runs.more();
    }
  }, [runs]);
  useEffect(askMore, [askMore, rows]);

  const moveTo = (position: number): void => {
    const entry = entries[Math.max(0, Math.min(entries.length - 1, position))];
    if (entry) {
      setCurrentId(keyOf(entry));
      document.getElementById(idOf(entry))?.scrollIntoView({ block: 'nearest' });
    }
  };
  const toggle = useCallback((toggled: readonly RunRow[]): void => {
    setChecked(chosen => {
      const all = toggled.every(({ runId }) => chosen.has(runId));
      const next = new Set(chosen);
      toggled.forEach(({ runId }) => (all ? next.delete(runId) : next.add(runId)));
      return next;
    });
  }, []);
  const unfold = useCallback(({ sweepId }: SweepRows, unfolded?: boolean): void => {
    setCurrentId(sweepId);
    setOpen(before => {
      const next = new Set(before);
      const isOpen = next.delete(sweepId);
      return (unfolded ?? !isOpen) ? next.add(sweepId) : next;
    });
  }, []);
  const key = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor(scroller.current!.clientHeight / 60));
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: entries.length,
    };
    const to = steps[event.key];
    if (to !== undefined) {
      moveTo(to);
    } else if (event.key === ' ' && current) {
      toggle(rowsOf(current));
    } else if (current?.kind === 'sweep' && event.key in UNFOLDS) {
      unfold(current.sweep, UNFOLDS[event.key]);
    } else if (current?.kind === 'run' && (event.key === 'Enter' || event.key === 'Delete')) {
      execute(event.key === 'Enter' ? COMMANDS.open : COMMANDS.remove, { runId: current.row.runId });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const check = useCallback(
    (row: RunRow): void => {
      setCurrentId(row.runId);
      toggle([row]);
    },
    [toggle],
  );
  const click = useCallback(
    (row: RunRow, event: MouseEvent): void => {
      if (event.ctrlKey || event.metaKey) {
        check(row);
      } else {
        setCurrentId(row.runId);
        execute(COMMANDS.open, { runId: row.runId });
      }
    },
    [execute, check],
  );

  const placeOf = (entry: Entry, position: number) => ({
    id: idOf(entry),
    position,
    count: entries.length,
    current: entry === current,
    checked: rowsOf(entry).every(({ runId }) => checked.has(runId)),
    now: rowsOf(entry).some(({ live }) => live) ? seconds : minute + 60,
  });
  const draw = (entry: Entry, position: number): ReactElement =>
    entry.kind === 'sweep' ? (
      <SweepItem
        key={keyOf(entry)}
        {...placeOf(entry, position)}
        sweep={entry.sweep}
        open={entry.open}
        onClick={unfold}
        onCheck={sweep => toggle(sweep.rows)}
      />
    ) : (
      <RunItem
        key={keyOf(entry)}
        {...placeOf(entry, position)}
        row={entry.row}
        ofSweep={entry.ofSweep}
        best={entry.best}
        onClick={click}
        onCheck={check}
      />
    );
  let position = 0;
  const chosen = rows.filter(({ runId }) => checked.has(runId));
  const menu = (event: MouseEvent): void => {
    const under = (event.target as Element).closest<HTMLElement>('[data-run], [data-sweep]');
    const on = under ? under.dataset['run'] : current?.kind === 'run' ? current.row.runId : undefined;
    // as everywhere in JupyterLab, with Shift it is the browser's
    if (on && !event.shiftKey) {
      setCurrentId(on);
      openMenu(
        { x: event.clientX, y: event.clientY },
        on,
        chosen.map(({ runId }) => runId),
      );
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return (
    <section className="nbdist nbdist-sidebar" data-theme={theme} aria-label={words.title}>
      <h2 className="nbdist-cut nbdist-side-head">{words.title}</h2>
      {runs.state === 'absent' ? (
        <Absent onTry={() => void runs.refresh()} />
      ) : (
        <>
          <label className="nbdist-row nbdist-field nbdist-find nbdist-side-search">
            <Icon name="search" />
            <input
              className="nbdist-search"
              type="search"
              data-first-focus
              placeholder={words.filter}
              aria-label={words.filter}
              value={search}
              onChange={event => {
                setSearch(event.currentTarget.value);
                runs.find(event.currentTarget.value);
              }}
            />
          </label>
          {runs.state === 'offline' && <p className="nbdist-note nbdist-calm">{words.offline}</p>}
          {runs.state === 'refused' && <p className="nbdist-note">{words.refused(runs.refusal)}</p>}
          {entries.length === 0 && runs.state !== 'refused' && <Nothing runs={runs} />}
          <div
            ref={scroller}
            className="nbdist-side-list"
            role="tree"
            aria-label={words.title}
            aria-activedescendant={current && idOf(current)}
            tabIndex={0}
            hidden={entries.length === 0}
            onScroll={askMore}
            onKeyDown={key}
            onContextMenu={menu}
            onFocus={() => !current && entries[0] && setCurrentId(keyOf(entries[0]))}
          >
            {groups.map(group => (
              <Fragment key={group.title}>
                <div role="presentation" className="nbdist-fine nbdist-side-group">
                  <span className="nbdist-cut">{group.title}</span>
                  <span className="nbdist-space" />
                  {group.count}
                </div>
                {group.entries.map(entry => draw(entry, position++))}
              </Fragment>
            ))}
          </div>
          <RunActions
            chosen={chosen.length > 1 || !current ? chosen : rowsOf(current)}
            sweep={chosen.length < 2 && current?.kind === 'sweep' ? current.sweep : null}
            execute={execute}
            onClear={() => setChecked(new Set())}
          />
        </>
      )}
    </section>
  );
}

function Nothing({ runs }: Pick<IRunService, 'runs'>): ReactElement {
  if (runs.state === 'unknown' || runs.searching) {
    return <p className="nbdist-empty">{words.loading}</p>;
  }
  return runs.search ? (
    <p className="nbdist-empty">{words.noneFound(runs.search)}</p>
  ) : (
    <p className="nbdist-empty">
      {words.noRuns} <code>%%distributed</code> {words.noRunsThen}
    </p>
  );
}

/** Draw the instruction for a page with nbdist whose server has none. */
function Absent({ onTry }: { onTry: () => void }): ReactElement {
  return (
    <div className="nbdist-empty nbdist-absent" role="status">
      <b>{words.absentTitle}</b>
      <p>
        {words.absent} <code>pip install nbdist</code> {words.absentThen}
      </p>
      <Button icon="refresh" label={words.tryAgain} onClick={onTry} />
    </div>
  );
}

interface ActionsProps {
  chosen: readonly RunRow[];
  /** the sweep whose runs these are, where its entry was chosen */
  sweep: SweepRows | null;
  execute: Execute;
  onClear: () => void;
}

/** Draw the actions on the selected runs. */
function RunActions({ chosen, sweep, execute, onClear }: ActionsProps): ReactElement | null {
  const [row] = chosen;
  if (!row) {
    return null;
  }
  if (chosen.length > 1 || sweep) {
    const runIds = chosen.map(each => each.runId);
    return (
      <div
        className="nbdist-row nbdist-side-actions"
        role="toolbar"
        aria-label={words.selected(chosen.length)}
      >
        {chosen.length > 1 && (
          <Button
            icon="compare"
            label={words.compare(chosen.length)}
            onClick={() => execute(COMMANDS.compare, { runIds })}
          />
        )}
        <span className="nbdist-space" />
        {sweep && standing(sweep).state === 'running' && (
          <Button
            icon="stop"
            label={words.stopSweep}
            bare
            onClick={() => execute(COMMANDS.stopSweep, { sweepId: sweep.sweepId })}
          />
        )}
        {!sweep && <Button icon="close" label={words.clear} bare onClick={onClear} />}
      </div>
    );
  }
  const { runId } = row;
  const act = (command: string) => () => execute(command, { runId });
  return (
    <div className="nbdist-row nbdist-side-actions" role="toolbar" aria-label={row.label}>
      <Button icon="open" label={words.open} title={words.open} onClick={act(COMMANDS.open)} />
      <Button icon="attach" label={words.attach} title={words.attachHint} onClick={act(COMMANDS.attach)} />
      <span className="nbdist-space" />
      {row.notebook && <Button icon="cell" label={words.reveal} bare onClick={act(COMMANDS.reveal)} />}
      {row.live ? (
        <Button icon="stop" label={panelWords.stop} bare onClick={act(COMMANDS.stop)} />
      ) : (
        <Button icon="remove" label={words.delete} bare onClick={act(COMMANDS.remove)} />
      )}
    </div>
  );
}
