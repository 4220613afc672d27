/** Views in the nodes of a page. */
import { type ComponentType, createElement, render } from 'preact';
import type { ReactElement } from 'react';

import { element } from '../page/nodes';

/** A view that is drawn. It may be moved: what its reader chose stays. */
export interface Drawn {
  readonly element: HTMLElement;
  remove(): void;
}

/** Draw a view behind what stands in a place. */
export function drawInto<Props extends object>(
  place: HTMLElement,
  view: (props: Props) => ReactElement,
  props: Props,
): Drawn {
  const drawn = element('div');
  place.append(drawn);
  // the views are typed for React, which the bundle replaces by Preact
  render(createElement(view as unknown as ComponentType<Props>, props), drawn);
  return {
    element: drawn,
    remove: () => {
      render(null, drawn);
      drawn.remove();
    },
  };
}

/** Hide what stands in a place; call what this returns to show it again. */
export function hideContent(place: HTMLElement): () => void {
  const shown = [...place.children].filter(child => child instanceof HTMLElement && !child.hidden);
  const setHidden = (hidden: boolean): void =>
    shown.forEach(child => ((child as HTMLElement).hidden = hidden));
  setHidden(true);
  return () => setHidden(false);
}
