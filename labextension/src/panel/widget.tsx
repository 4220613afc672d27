/** The panel as an anywidget: one session of each widget, any number of views of it. */
import '../styles/index.css';
import { Monitor } from '../views/Monitor';
import { Panel } from '../views/Panel';
import { SweepPanel } from '../views/compare/SweepPanel';
import { type Drawn, drawInto } from './draw';
import { takePlaces } from './places';
import { drawReport } from './report';
import { monitorSource, runHost, sweepSource } from './requests';
import { listen, placed, sessionOf, type WidgetModel } from './session';

/** milliseconds that a panel whose output has gone waits for its place */
const MOVE = 5000;

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
        leave ??= takePlaces(String(model.get('panel_id')), el => adoptOrDraw(model, el));
      }
    };
    model.on('change:placed', place);
    const stopListening = listen(model);
    const forget = feed?.subscribe(moving => {
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
    const stopListening = sessionOf(model).listeners ? null : listen(model);
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

function draw(model: WidgetModel, el: HTMLElement): Drawn {
  const { run, feed } = sessionOf(model);
  if (model.get('sweep')) {
    return drawInto(el, SweepPanel, { source: sweepSource(model) });
  }
  return feed
    ? drawInto(el, Monitor, { source: monitorSource(model, feed) })
    : drawInto(el, Panel, { run, host: runHost(model, run), folds: model.get('opened') !== true });
}

/** Keep a panel whose output has gone for the place that comes instead. */
function holdForAdoption(model: WidgetModel, drawn: Drawn): void {
  const { orphans } = sessionOf(model);
  orphans.push(drawn);
  setTimeout(() => {
    if (orphans.includes(drawn)) {
      orphans.splice(orphans.indexOf(drawn), 1);
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
