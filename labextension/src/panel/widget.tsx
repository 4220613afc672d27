/** The panel as an anywidget. One model of what arrived for each widget, any number of views of it: anywidget hands
 * `initialize` and every `render` a model object of their own, so the widget's `panel_id` is what they share. */
import { type ComponentType, createElement, render } from 'preact';

import '../styles/index.css';
import { browserTurns } from '../log/slices';
import { RunModel } from '../model/run_model';
import { element } from '../page/nodes';
import { PageServer } from '../page/server';
import { askPage, pageActs } from '../page/actions';
import { type Answer, decode, type Request, viewOf } from '../protocol/run';
import { type Buffer } from '../protocol/readers';
import { drawReport } from './report';
import { MonitorFeed } from '../model/monitor';
import { Monitor, type MonitorSource } from '../views/Monitor';
import { Panel, type PanelSource } from '../views/Panel';
import { SweepPanel, type SweepSource } from '../views/compare/SweepPanel';
import { languageOf } from '../words/languages';
import { placesIn, takePlaces } from './places';

/** The part of anywidget's model that is used here. */
interface WidgetModel {
  get(name: string): unknown;
  on(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  on(event: 'change:placed' | 'change:sweep', listener: () => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  off(event: 'change:placed' | 'change:sweep', listener: () => void): void;
  send(content: Request): unknown;
}

/** Milliseconds that an answer of the kernel may take, that the first message may, and the place of a panel. */
const PATIENCE = 4000;
const FIRST_NEWS = 2000;
const MOVE = 5000;

/** Seconds without a message after which the server is asked, and milliseconds between two questions: a kernel that
 * follows a live run sends something every five seconds. */
const SILENT = 8;
const ASK_SERVER = 4000;

/** The model of a run, the number of its listeners, and panels that lost their output and wait for another. */
interface Session {
  readonly run: RunModel;
  /** the news of a monitor, which shows all runs */
  readonly feed: MonitorFeed | null;
  listeners: number;
  readonly orphans: Drawn[];
}

/** A panel that is drawn. It may be moved: what its reader chose stays. */
interface Drawn {
  readonly element: HTMLElement;
  remove(): void;
}

const runs = new Map<unknown, Session>();
const turns = browserTurns();
const server = new PageServer();

function sessionOf(model: WidgetModel): Session {
  const id = model.get('panel_id');
  const feed = model.get('monitor') ? new MonitorFeed() : null;
  const session = runs.get(id) ?? { run: new RunModel(), feed, listeners: 0, orphans: [] };
  runs.set(id, session);
  return session;
}

// no widget manager is in a report, which says of itself that it is one
if (document.documentElement.hasAttribute('data-nbdist-report')) {
  drawReport();
}

export default {
  initialize({ model }: { model: WidgetModel }): () => void {
    let leave: (() => void) | null = null;
    const { feed } = sessionOf(model);
    const place = (): void => {
      // the still table stays until there is something to draw in its place
      if (placed(model) && feed?.news !== null) {
        leave ??= takePlaces(placesOf(model), el => adoptOrDraw(model, el));
      }
    };
    model.on('change:placed', place);
    const stopListening = listen(model);
    const forget = feed?.listen(moving => {
      if (moving) {
        leave?.();
        leave = null;
      }
      place();
    });
    place();
    return () => {
      forget?.();
      model.off('change:placed', place);
      leave?.();
      stopListening();
    };
  },

  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    // a host need not initialize a widget before it draws it
    const stopListening = model.get('sweep') || sessionOf(model).listeners ? null : listen(model);
    const drawn = draw(model, el);
    return () => {
      if (placed(model)) {
        holdForAdoption(model, drawn);
      } else {
        drawn.remove();
      }
      stopListening?.();
    };
  },
};

/** Return true when the run has ended and its panel replaces the output kept in the notebook. */
function placed(model: WidgetModel): boolean {
  return model.get('placed') === true;
}

/** Keep a panel whose output has gone for the place that comes instead. */
function holdForAdoption(model: WidgetModel, drawn: Drawn): void {
  const { orphans } = sessionOf(model);
  orphans.push(drawn);
  setTimeout(() => {
    const at = orphans.indexOf(drawn);
    if (at >= 0) {
      orphans.splice(at, 1);
      drawn.remove();
    }
  }, MOVE);
}

/** Draw into a place, or move there the panel that was drawn in the output before it. */
function adoptOrDraw(model: WidgetModel, el: HTMLElement): () => void {
  const moved = sessionOf(model).orphans.shift();
  if (moved) {
    el.append(moved.element);
    // at once: the browser may have more to say of how the log was scrolled before
    moved.element
      .querySelectorAll('.nbdist-log')
      .forEach(log => log.dispatchEvent(new Event('nbdist:moved')));
  }
  const drawn = moved ?? draw(model, el);
  return () => drawn.remove();
}

/** Take in what the kernel sends. */
function listen(model: WidgetModel): () => void {
  if (model.get('sweep')) {
    return () => undefined; // all of it is its state
  }
  const session = sessionOf(model);
  const { run, feed } = session;
  const read = (content: unknown, buffers: readonly Buffer[]): void => {
    feed?.receive(content);
    const message = decode(content, buffers);
    if (message) {
      run.receive(message);
    }
    if (run.wantsPull()) {
      pull();
    }
  };
  // most have come with the lines; the kernel has no time for the others while a cell runs, the server has
  run.log.outputs.ask = (rank, name) =>
    void server
      .media(run.view?.runId ?? '', rank, name)
      .then(data => (data ? run.log.outputs.put(name, data) : ask(model, { kind: 'media', rank, name })));
  const pull = (): void => void ask(model, { kind: 'pull', placed: placed(model) });
  const lacks = (): boolean => !feed && (run.view === null || run.log.incomplete);
  // in a turn of its own: for a megabyte of lines the page has just worked as long as it may without a pause
  const receive = (content: unknown, buffers: readonly Buffer[]): void =>
    turns.later(() => read(content, buffers));
  // the kernel was restarted or is dead, or its messages went into a page that slept
  const askServer = async (): Promise<void> => {
    const { view } = run;
    const now = view?.live && isSilent(run) ? viewOf(await server.run(view.runId)) : null;
    if (now && run.view?.live && isSilent(run)) {
      run.receiveView(now);
    }
  };
  const asking = setInterval(() => void askServer(), ASK_SERVER);
  const shown = (): void => void askServer();
  document.addEventListener('visibilitychange', shown);
  let late = setTimeout(() => lacks() && pull(), FIRST_NEWS);
  // what was asked for before the run ended the kernel does not send any more
  const ended = (): void => {
    clearTimeout(late);
    late = setTimeout(() => lacks() && pull(), FIRST_NEWS);
  };
  model.on('msg:custom', receive);
  model.on('change:placed', ended);
  session.listeners += 1;
  return () => {
    clearTimeout(late);
    clearInterval(asking);
    document.removeEventListener('visibilitychange', shown);
    model.off('msg:custom', receive);
    model.off('change:placed', ended);
    session.listeners -= 1;
    if (!session.listeners) {
      run.log.outputs.clear();
      runs.delete(model.get('panel_id'));
    }
  };
}

function isSilent(run: RunModel): boolean {
  return performance.now() / 1000 - run.heardAt >= SILENT;
}

/** Send to the kernel; false where that cannot be: a connection that was closed, a page without one. */
function ask(model: WidgetModel, request: Request): boolean {
  try {
    // some hosts promise to send, and break that later
    void Promise.resolve(model.send(request)).catch(() => undefined);
    return true;
  } catch {
    return false;
  }
}

/** Return the kernel's answer; null when it is too busy to answer. */
function answerOf<Kind extends Answer['kind']>(
  model: WidgetModel,
  run: RunModel,
  request: Request & { kind: Kind },
): Promise<Extract<Answer, { kind: Kind }> | null> {
  const answer = run.next(request.kind);
  if (!ask(model, request)) {
    return Promise.resolve(null);
  }
  const silence = new Promise<null>(done => setTimeout(() => done(null), PATIENCE));
  return Promise.race([answer, silence]);
}

function draw(model: WidgetModel, el: HTMLElement): Drawn {
  // the views are typed for React, which the bundle replaces by Preact
  const view = Panel as unknown as ComponentType<Parameters<typeof Panel>[0]>;
  const place = element('div');
  el.append(place);
  // a sweep has no model of its own
  const session = model.get('sweep') ? null : sessionOf(model);
  if (!session) {
    const sweep = SweepPanel as unknown as ComponentType<Parameters<typeof SweepPanel>[0]>;
    render(createElement(sweep, { source: sweepOf(model) }), place);
  } else if (session.feed) {
    const monitor = Monitor as unknown as ComponentType<Parameters<typeof Monitor>[0]>;
    render(createElement(monitor, { source: monitorOf(model, session.feed) }), place);
  } else {
    render(createElement(view, { run: session.run, source: sourceOf(model, session.run) }), place);
  }
  return {
    element: place,
    remove: () => {
      render(null, place);
      place.remove();
    },
  };
}

function placesOf(model: WidgetModel): (fresh: boolean) => readonly HTMLElement[] {
  const id = String(model.get('panel_id'));
  return fresh => placesIn(fresh).filter(({ dataset }) => dataset['nbdistPanel'] === id);
}

/** Ask the kernel to end what it shows; return false when the reader has to interrupt the cell by hand. */
async function stopByKernel(model: WidgetModel): Promise<boolean> {
  const sent = ask(model, { kind: 'stop' });
  // the kernel of what is detached does something else
  return model.get('foreground') === true
    ? server.interruptKernel(String(model.get('kernel_id') ?? ''))
    : sent;
}

function sweepOf(model: WidgetModel): SweepSource {
  return {
    news: () => model.get('sweep'),
    listen: hear => {
      model.on('change:sweep', hear);
      return () => model.off('change:sweep', hear);
    },
    stop: () => stopByKernel(model),
    open: pageActs() ? (runId, label, from) => askPage({ action: 'open', runId, label, from }) : null,
  };
}

function monitorOf(model: WidgetModel, feed: MonitorFeed): MonitorSource {
  return {
    feed,
    seen: seen => void ask(model, { kind: 'seen', seen, language: languageOf() }),
    stop: async runId => (await server.stop(runId)) || ask(model, { kind: 'stop', run: runId }),
    act: pageActs()
      ? (action, { runId, run }, tab, from) => askPage({ action, runId, label: run, tab, from })
      : null,
  };
}

function sourceOf(model: WidgetModel, run: RunModel): PanelSource {
  return {
    foreground: () => model.get('foreground') === true,
    opened: () => model.get('opened') === true,
    // a kernel that is silent may have been restarted, and run another cell
    stop: async () => (await server.stop(run.view?.runId ?? '')) || (!isSilent(run) && stopByKernel(model)),
    stacks: () => void ask(model, { kind: 'stacks' }),
    interrupt: rank => void ask(model, { kind: 'interrupt', rank }),
    line: () => String(model.get('line') ?? ''),
    act: pageActs()
      ? (action, from) => {
          const { runId, label } = run.view!;
          askPage({ action, runId, label, from });
        }
      : undefined,
    board: () => answerOf(model, run, { kind: 'board' }),
    report: async () => {
      const language = languageOf();
      const text = await server.report(run.view?.runId ?? '', language);
      return text ?? ((await answerOf(model, run, { kind: 'report', language }))?.text || null);
    },
  };
}
