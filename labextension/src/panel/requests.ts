/** The requests of what a widget draws, to its kernel, its server and the page around. */
import { askPage, pageActs } from '../page/actions';
import type { MonitorFeed } from '../model/monitor';
import type { RunModel } from '../model/run_model';
import type { Answer, Request } from '../protocol/run';
import type { SweepSource } from '../views/compare/SweepPanel';
import type { MonitorSource } from '../views/Monitor';
import { cannotStop, openBoard } from '../views/Notes';
import type { RunHost } from '../views/RunPage';
import { languageOf } from '../words/languages';
import { ask, isSilent, server, type WidgetModel } from './session';

/** milliseconds that an answer of the kernel may take */
const PATIENCE = 4000;

export function runHost(model: WidgetModel, run: RunModel): RunHost {
  const label = (): string => run.view?.label ?? '';
  // a cell that waits for its run keeps the kernel from hearing of anything
  const hears = model.get('foreground') !== true;
  const stop = async (): Promise<boolean> =>
    // a kernel that is silent may have been restarted, and run another cell
    (await server.stop(run.view?.runId ?? '')) || (!isSilent(run) && (await stopByKernel(model)));
  return {
    stop: async () => ((await stop()) ? null : cannotStop(label())),
    board: ({ notify }) => void openBoard(answerOf(model, run, { kind: 'board' }), label(), notify),
    again: hears ? () => void ask(model, { kind: 'stacks' }) : null,
    interrupt: hears ? rank => void ask(model, { kind: 'interrupt', rank }) : null,
    profiler: {
      record: () => server.profile(run.view?.runId ?? ''),
      trace: () => server.trace(run.view?.runId ?? ''),
    },
    debug: (ranks, command) => server.debug(run.view?.runId ?? '', ranks, command),
    line: () => String(model.get('line') ?? ''),
    act: pageActs()
      ? (action, from) => askPage({ action, runId: run.view!.runId, label: label(), from })
      : undefined,
    report: async () => {
      const language = languageOf();
      const text = await server.report(run.view?.runId ?? '', language);
      return text ?? ((await answerOf(model, run, { kind: 'report', language }))?.text || null);
    },
  };
}

export function sweepSource(model: WidgetModel): SweepSource {
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

export function monitorSource(model: WidgetModel, feed: MonitorFeed): MonitorSource {
  return {
    feed,
    seen: seen => void ask(model, { kind: 'seen', seen, language: languageOf() }),
    stop: async runId => (await server.stop(runId)) || ask(model, { kind: 'stop', run: runId }),
    act: pageActs()
      ? (action, { runId, run }, tab, from) => askPage({ action, runId, label: run, tab, from })
      : null,
  };
}

/** Ask the kernel to end what it shows; return false when the reader has to interrupt the cell by hand. */
async function stopByKernel(model: WidgetModel): Promise<boolean> {
  const sent = ask(model, { kind: 'stop' });
  // the kernel of what is detached does something else
  return model.get('foreground') === true
    ? server.interruptKernel(String(model.get('kernel_id') ?? ''))
    : sent;
}

/** Return the kernel's answer; null when it is too busy to answer. */
function answerOf<Kind extends Answer['kind']>(
  model: WidgetModel,
  run: RunModel,
  request: Request & { kind: Kind },
): Promise<Extract<Answer, { kind: Kind }> | null> {
  const answer = run.next(request.kind);
  const silence = new Promise<null>(done => setTimeout(() => done(null), PATIENCE));
  return ask(model, request) ? Promise.race([answer, silence]) : Promise.resolve(null);
}
