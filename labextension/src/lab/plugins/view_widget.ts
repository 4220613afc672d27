/** A place in JupyterLab's shell for a view. The view's code, and React's, is fetched when it is first seen. */
import { LabIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { TabPanel, Widget } from '@lumino/widgets';
import type { ReactElement } from 'react';
import type { Root } from 'react-dom/client';

import type { RunModel } from '../../model/run_model';
import { messageOf } from '../../page/nodes';
import type { Follower } from '../services/follower';
import type { IRunService } from '../tokens';
import { words } from '../../words/lab';

/** Four ranks, as in the sidebar of the design. */
export const ranksIcon = new LabIcon({
  name: 'nbdist:ranks',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
    <g class="jp-icon3 jp-icon-selectable-inverse" fill="none" stroke="#616161" stroke-width="1.5">
      <rect x="2.5" y="2.5" width="4" height="4" rx=".5"/><rect x="9.5" y="2.5" width="4" height="4" rx=".5"/>
      <rect x="2.5" y="9.5" width="4" height="4" rx=".5"/><rect x="9.5" y="9.5" width="4" height="4" rx=".5"/>
    </g></svg>`,
});

export class ViewWidget extends Widget {
  private root: Root | null = null;
  private requested = false;

  constructor(
    private readonly view: () => Promise<ReactElement>,
    private readonly onSeen: (seen: boolean) => void = () => undefined,
  ) {
    super();
    this.addClass('nbdist-place');
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.seen();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.seen();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    if (this.requested) {
      this.onSeen(false);
    }
  }

  /** A place that its reader closes is gone: only detached, it would be found, and not be seen. */
  protected override onCloseRequest(message: Message): void {
    super.onCloseRequest(message);
    this.dispose();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    const focusable = this.node.querySelector<HTMLElement>('[data-first-focus], [tabindex="0"]');
    (focusable ?? this.node).focus({ preventScroll: true });
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.root?.unmount();
      this.root = null;
      super.dispose();
    }
  }

  private seen(): void {
    if (!this.isVisible) {
      return;
    }
    this.onSeen(true);
    if (!this.requested) {
      this.requested = true;
      void this.draw();
    }
  }

  private async draw(): Promise<void> {
    try {
      const [{ createRoot }, element] = await Promise.all([import('react-dom/client'), this.view()]);
      if (!this.isDisposed) {
        this.node.replaceChildren();
        this.root = createRoot(this.node);
        this.root.render(element);
      }
    } catch (problem) {
      // a server with another nbdist has no such file; seen again it is asked for again
      this.requested = false;
      this.node.textContent = words.notLoaded(messageOf(problem));
    }
  }
}

/** A place for a view of a run, which is followed while it is seen. */
export class RunWidget extends ViewWidget {
  /** null until it was first seen */
  follower: Follower | null = null;

  constructor(
    service: IRunService,
    readonly runId: string,
    view: (model: RunModel) => Promise<ReactElement>,
  ) {
    super(
      async () => {
        const { Follower } = await import('../services/follower');
        const follower = new Follower(service, runId);
        this.follower = follower;
        if (this.isDisposed) {
          follower.end();
        } else {
          follower.setVisible(this.isVisible);
        }
        return view(follower.model);
      },
      seen => this.follower?.setVisible(seen),
    );
    this.disposed.connect(() => this.follower?.end());
  }
}

/** Show the tab of a widget: Notebook 7 opens the area below, but not the tab. */
export function bringUp(widget: Widget): void {
  const tabs = widget.parent?.parent;
  if (tabs instanceof TabPanel) {
    tabs.currentWidget = widget;
    tabs.show();
  }
}
