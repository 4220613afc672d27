/**
 * The panel as an anywidget. One model of what arrived for each widget, any number of views of it:
 * anywidget hands `initialize` and every `render` a model object of their own, so the widget's
 * `panel_id` is what they share.
 */
import { createElement, render, type ComponentType } from 'preact';
import { decode, type Buffer } from './decode';
import { browserTurns } from './log/slices';
import { RunModel } from './model';
import type { BoardAnswer, Request } from './protocol';
import { askPage, pageActs } from './page_actions';
import { takePlaces } from './places';
import { interruptKernel, stopRun } from './stop';
import './styles/index.css';
import { LivePanel, type Host } from './views/LivePanel';
import { languageOf } from './words';

/** What anywidget gives, as far as it is used here. */
interface WidgetModel {
  get(name: string): unknown;
  on(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  on(event: 'change:placed', listener: () => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  off(event: 'change:placed', listener: () => void): void;
  send(content: Request): unknown;
}

/** Milliseconds that an answer about VisualDL may take, that the first message may, and the place of a panel. */
const BOARD_PATIENCE = 4000;
const FIRST_NEWS = 2000;
const MOVE = 5000;

/** What came of a run, how many listen for more, and panels that have lost their output and get a place. */
interface Heard {
  readonly run: RunModel;
  listeners: number;
  readonly homeless: Drawn[];
}

/** A panel that is drawn. It may be moved: what its reader chose stays. */
interface Drawn {
  readonly element: HTMLElement;
  remove(): void;
}

const runs = new Map<unknown, Heard>();
const turns = browserTurns();

function heardOf(model: WidgetModel): Heard {
  const id = model.get('panel_id');
  const heard = runs.get(id) ?? { run: new RunModel(), listeners: 0, homeless: [] };
  runs.set(id, heard);
  return heard;
}

export default {
  initialize({ model }: { model: WidgetModel }): () => void {
    let leave: (() => void) | null = null;
    const place = (): void => {
      if (placed(model)) {
        leave ??= takePlaces(placesOf(model), el => settle(model, el));
      }
    };
    model.on('change:placed', place);
    const deafen = listen(model);
    place();
    return () => {
      model.off('change:placed', place);
      leave?.();
      deafen();
    };
  },

  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    // a host need not initialize a widget before it draws it
    const deafen = heardOf(model).listeners ? null : listen(model);
    const drawn = draw(model, el);
    return () => {
      if (placed(model)) {
        keep(model, drawn);
      } else {
        drawn.remove();
      }
      deafen?.();
    };
  },
};

/** Whether the run has ended, and its panel is drawn in the place of what the notebook keeps. */
function placed(model: WidgetModel): boolean {
  return model.get('placed') === true;
}

/** Keep a panel whose output has gone for the place that comes instead. */
function keep(model: WidgetModel, drawn: Drawn): void {
  const { homeless } = heardOf(model);
  homeless.push(drawn);
  setTimeout(() => {
    const at = homeless.indexOf(drawn);
    if (at >= 0) {
      homeless.splice(at, 1);
      drawn.remove();
    }
  }, MOVE);
}

/** Draw into a place, or move there the panel that was drawn in the output before it. */
function settle(model: WidgetModel, el: HTMLElement): () => void {
  const moved = heardOf(model).homeless.shift();
  if (moved) {
    el.append(moved.element);
  }
  const drawn = moved ?? draw(model, el);
  return () => drawn.remove();
}

/** Take in what the kernel sends. */
function listen(model: WidgetModel): () => void {
  const heard = heardOf(model);
  const { run } = heard;
  const read = (content: unknown, buffers: readonly Buffer[]): void => {
    const message = decode(content, buffers);
    if (message) {
      run.receive(message);
    }
    if (run.wantsPull()) {
      pull();
    }
  };
  const pull = (): void => void ask(model, { kind: 'pull', placed: placed(model) });
  const lacks = (): boolean => run.view === null || run.log.incomplete;
  // in a turn of its own: for a megabyte of lines the page has just worked as long as it may without a pause
  const receive = (content: unknown, buffers: readonly Buffer[]): void =>
    turns.later(() => read(content, buffers));
  let late = setTimeout(() => lacks() && pull(), FIRST_NEWS);
  // what was asked for before the run ended the kernel does not send any more
  const ended = (): void => {
    clearTimeout(late);
    late = setTimeout(() => lacks() && pull(), FIRST_NEWS);
  };
  model.on('msg:custom', receive);
  model.on('change:placed', ended);
  heard.listeners += 1;
  return () => {
    clearTimeout(late);
    model.off('msg:custom', receive);
    model.off('change:placed', ended);
    heard.listeners -= 1;
    if (!heard.listeners) {
      runs.delete(model.get('panel_id'));
    }
  };
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

function draw(model: WidgetModel, el: HTMLElement): Drawn {
  // the views are typed for React, which the bundle replaces by Preact
  const view = LivePanel as unknown as ComponentType<Parameters<typeof LivePanel>[0]>;
  const { run } = heardOf(model);
  const element = document.createElement('div');
  el.append(element);
  render(createElement(view, { run, host: hostOf(model, run) }), element);
  return {
    element,
    remove: () => {
      render(null, element);
      element.remove();
    },
  };
}

function placesOf(model: WidgetModel): () => readonly HTMLElement[] {
  const selector = `[data-nbdist-panel="${CSS.escape(String(model.get('panel_id')))}"]`;
  return () => [...document.querySelectorAll<HTMLElement>(selector)];
}

function hostOf(model: WidgetModel, run: RunModel): Host {
  return {
    language: languageOf(document, navigator.language),
    foreground: () => model.get('foreground') === true,
    now: () => performance.now() / 1000,
    stop: async () => {
      if (await stopRun(run.view?.runId ?? '')) {
        return true;
      }
      const asked = ask(model, { kind: 'stop' });
      // the kernel of a detached run does something else
      return model.get('foreground') === true ? interruptKernel(String(model.get('kernel_id') ?? '')) : asked;
    },
    stacks: () => void ask(model, { kind: 'stacks' }),
    interrupt: rank => void ask(model, { kind: 'interrupt', rank }),
    act: pageActs()
      ? (action, from) => {
          const { runId, label } = run.view!;
          askPage({ action, runId, label, from });
        }
      : undefined,
    board: () => {
      const answer = run.nextBoard();
      if (!ask(model, { kind: 'board' })) {
        return Promise.resolve(null);
      }
      const silence = new Promise<BoardAnswer | null>(done => setTimeout(() => done(null), BOARD_PATIENCE));
      return Promise.race([answer, silence]);
    },
  };
}
