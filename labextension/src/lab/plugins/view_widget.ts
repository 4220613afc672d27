/** A place in JupyterLab's shell for a view. The view's code, and React's, is fetched when it is first seen. */
import { TabPanel, Widget } from '@lumino/widgets';
import type { Message } from '@lumino/messaging';
import type { ReactElement } from 'react';
import type { Root } from 'react-dom/client';

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
    const [{ createRoot }, element] = await Promise.all([import('react-dom/client'), this.view()]);
    if (!this.isDisposed) {
      this.root = createRoot(this.node);
      this.root.render(element);
    }
  }
}

/** Notebook 7 shows the area below, but not which of its tabs was asked for. */
export function bringUp(widget: Widget): void {
  const tabs = widget.parent?.parent;
  if (tabs instanceof TabPanel) {
    tabs.currentWidget = widget;
    tabs.show();
  }
}
