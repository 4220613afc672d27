/** The received data of each widget, and its questions. anywidget hands `initialize` and every `render` a model object
 * of their own, so the widget's `panel_id` is what they share. */
import { browserTurns } from '../log/slices';
import { MonitorFeed } from '../model/monitor';
import { pageNow, RunModel } from '../model/run_model';
import { PageServer } from '../page/server';
import { type Buffer } from '../protocol/readers';
import { decode, type Request, viewOf } from '../protocol/run';
import type { Drawn } from './draw';

/** The part of anywidget's model that is used here. */
export interface WidgetModel {
  get(name: string): unknown;
  on(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  on(event: 'change:placed' | 'change:sweep', listener: () => void): void;
  off(event: string, listener: unknown): void;
  send(content: Request): unknown;
}

/** milliseconds that the first message may take */
const FIRST_NEWS = 2000;

/** Seconds without a message after which the server is asked, and milliseconds between two questions: a kernel that
 * follows a live run sends something every five seconds. */
const SILENT = 8;
const ASK_SERVER = 4000;

/** The state that all views of a widget share. */
export interface Session {
  readonly run: RunModel;
  /** the news of a monitor, which shows all runs */
  readonly feed: MonitorFeed | null;
  listeners: number;
  /** panels that lost their output and wait for another */
  readonly orphans: Drawn[];
}

export const server = new PageServer();
const sessions = new Map<unknown, Session>();
const turns = browserTurns();

export function sessionOf(model: WidgetModel): Session {
  const id = model.get('panel_id');
  const feed = model.get('monitor') ? new MonitorFeed() : null;
  const session = sessions.get(id) ?? { run: new RunModel(), feed, listeners: 0, orphans: [] };
  sessions.set(id, session);
  return session;
}

/** Return true when the run has ended and its panel replaces the output kept in the notebook. */
export function placed(model: WidgetModel): boolean {
  return model.get('placed') === true;
}

/** Send to the kernel; false where that cannot be: a connection that was closed, a page without one. */
export function ask(model: WidgetModel, request: Request): boolean {
  try {
    // some hosts promise to send, and break that later
    void Promise.resolve(model.send(request)).catch(() => undefined);
    return true;
  } catch {
    return false;
  }
}

export function isSilent(run: RunModel): boolean {
  return pageNow() - run.heardAt >= SILENT;
}

/** Take in what the kernel sends, until the returned function is called. */
export function listen(model: WidgetModel): () => void {
  const session = sessionOf(model);
  const { run, feed } = session;
  const pull = (): void => void ask(model, { kind: 'pull', placed: placed(model) });
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
  // in a turn of its own: for a megabyte of lines the page has just worked as long as it may without a pause
  const receive = (content: unknown, buffers: readonly Buffer[]): void =>
    turns.later(() => read(content, buffers));
  // most have come with the lines; the kernel has no time for the others while a cell runs, the server has
  run.log.outputs.ask = (rank, name) =>
    void server
      .media(run.view?.runId ?? '', rank, name)
      .then(data => (data ? run.log.outputs.put(name, data) : ask(model, { kind: 'media', rank, name })));
  // all of a sweep is its state
  const lacks = (): boolean => !feed && !model.get('sweep') && (run.view === null || run.log.incomplete);
  let late: ReturnType<typeof setTimeout> | undefined;
  const pullLater = (): void => {
    clearTimeout(late);
    late = setTimeout(() => lacks() && pull(), FIRST_NEWS);
  };
  pullLater();
  const asking = setInterval(() => void askServer(run), ASK_SERVER);
  model.on('msg:custom', receive);
  // what was asked for before the run ended the kernel does not send any more
  model.on('change:placed', pullLater);
  session.listeners += 1;
  return () => {
    clearTimeout(late);
    clearInterval(asking);
    model.off('msg:custom', receive);
    model.off('change:placed', pullLater);
    session.listeners -= 1;
    if (!session.listeners) {
      run.log.outputs.clear();
      sessions.delete(model.get('panel_id'));
    }
  };
}

/** Take the view of a live run from the server while its kernel is silent: it was restarted or is dead, or its messages
 * went into a page that slept. */
async function askServer(run: RunModel): Promise<void> {
  const { view } = run;
  const answer = view?.live && isSilent(run) ? viewOf(await server.run(view.runId)) : null;
  if (answer && isSilent(run)) {
    run.receiveView(answer);
  }
}
