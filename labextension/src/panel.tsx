/**
 * The panel as an anywidget. One model of what arrived for each widget, any number of views of it:
 * anywidget hands `initialize` and every `render` a model object of their own, so the widget's
 * `panel_id` is what they share.
 */
import { createElement, render, type ComponentType } from 'preact';
import { decode, type Buffer } from './decode';
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
  send(content: Request): void;
}

/** Milliseconds that an answer about VisualDL may take, and that the first message may. */
const BOARD_PATIENCE = 4000;
const FIRST_NEWS = 2000;

const runs = new Map<unknown, RunModel>();

function runOf(model: WidgetModel): RunModel {
  const id = model.get('panel_id');
  const run = runs.get(id) ?? new RunModel();
  runs.set(id, run);
  return run;
}

export default {
  initialize({ model }: { model: WidgetModel }): () => void {
    const run = runOf(model);
    const receive = (content: unknown, buffers: readonly Buffer[]): void => {
      const message = decode(content, buffers);
      if (message) {
        run.receive(message);
      }
      if (run.wantsPull()) {
        model.send({ kind: 'pull' });
      }
    };
    model.on('msg:custom', receive);
    const late = setTimeout(() => run.view ?? model.send({ kind: 'pull' }), FIRST_NEWS);
    const leave = model.get('placed') === true ? takePlaces(placesOf(model), el => draw(model, el)) : null;
    return () => {
      clearTimeout(late);
      leave?.();
      model.off('msg:custom', receive);
      runs.delete(model.get('panel_id'));
    };
  },

  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    return draw(model, el);
  },
};

function draw(model: WidgetModel, el: HTMLElement): () => void {
  // the views are typed for React, which the bundle replaces by Preact
  const view = LivePanel as unknown as ComponentType<Parameters<typeof LivePanel>[0]>;
  const run = runOf(model);
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
      model.send({ kind: 'stop' });
      return (
        model.get('foreground') !== true || (await interruptKernel(String(model.get('kernel_id') ?? '')))
      );
    },
    stacks: () => model.send({ kind: 'stacks' }),
    interrupt: rank => model.send({ kind: 'interrupt', rank }),
    board: () => {
      const answer = run.nextBoard();
      model.send({ kind: 'board' });
      const silence = new Promise<BoardAnswer | null>(done => setTimeout(() => done(null), BOARD_PATIENCE));
      return Promise.race([answer, silence]);
    },
  };
}
