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
import { takePlaces } from './places';
import { interruptKernel, stopRun } from './stop';
import './styles/index.css';
import { LivePanel, type Host } from './views/LivePanel';
import { languageOf } from './words';

/** What anywidget gives, as far as it is used here. */
interface WidgetModel {
  get(name: string): unknown;
  on(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  off(event: 'msg:custom', listener: (content: unknown, buffers: readonly Buffer[]) => void): void;
  send(content: Request): unknown;
}

/** Milliseconds that an answer about VisualDL may take, and that the first message may. */
const BOARD_PATIENCE = 4000;
const FIRST_NEWS = 2000;

/** What came of a run, and how many listen for more. */
interface Heard {
  readonly run: RunModel;
  listeners: number;
}

const runs = new Map<unknown, Heard>();
const turns = browserTurns();

function heardOf(model: WidgetModel): Heard {
  const id = model.get('panel_id');
  const heard = runs.get(id) ?? { run: new RunModel(), listeners: 0 };
  runs.set(id, heard);
  return heard;
}

export default {
  initialize({ model }: { model: WidgetModel }): () => void {
    const leave = model.get('placed') === true ? takePlaces(placesOf(model), el => draw(model, el)) : null;
    const deafen = listen(model);
    return () => {
      leave?.();
      deafen();
    };
  },

  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    // a host need not initialize a widget before it draws it
    const deafen = heardOf(model).listeners ? null : listen(model);
    const remove = draw(model, el);
    return () => {
      remove();
      deafen?.();
    };
  },
};

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
      ask(model, { kind: 'pull' });
    }
  };
  // in a turn of its own: for a megabyte of lines the page has just worked as long as it may without a pause
  const receive = (content: unknown, buffers: readonly Buffer[]): void =>
    turns.later(() => read(content, buffers));
  model.on('msg:custom', receive);
  heard.listeners += 1;
  const late = setTimeout(() => run.view ?? ask(model, { kind: 'pull' }), FIRST_NEWS);
  return () => {
    clearTimeout(late);
    model.off('msg:custom', receive);
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

function draw(model: WidgetModel, el: HTMLElement): () => void {
  // the views are typed for React, which the bundle replaces by Preact
  const view = LivePanel as unknown as ComponentType<Parameters<typeof LivePanel>[0]>;
  const { run } = heardOf(model);
  render(createElement(view, { run, host: hostOf(model, run) }), el);
  return () => render(null, el);
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
