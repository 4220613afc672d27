/** Small stand-ins for what the plugins use of JupyterLab's packages: the real ones bring CodeMirror, Yjs and a page of
 * their own, which jest does not load. Lumino's widgets, commands and signals are the real ones. */
import { Token } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import { Panel, Widget } from '@lumino/widgets';

const token = (name: string): Token<unknown> => new Token(name);
export const ILabShell = token('shell');
export const ILayoutRestorer = token('restorer');
export const ICommandPalette = token('palette');
export const ILauncher = token('launcher');
export const IDocumentManager = token('documents');
export const INotebookTracker = token('notebooks');
export const ISettingRegistry = token('settings');
export const IStatusBar = token('bar');
export const ITranslator = token('translator');
export const IToolbarWidgetRegistry = token('toolbars');
export const ICompletionProviderManager = token('completers');
export const IEditorExtensionRegistry = token('editors');
export const PageConfig = { getOption: (): string => '/home/ada' };
export const EditorExtensionRegistry = { createImmutableExtension: (extension: unknown) => extension };

/** Messages to the user, and the user's answers to the next dialogs. */
export const messages: string[] = [];
export const answers: unknown[] = [];

const tell = (text: string): string => `${messages.push(text)}`;
export const Notification = {
  emit: tell,
  info: tell,
  error: tell,
  dismiss: (id: string): unknown => messages.splice(Number(id) - 1, 1, ''),
};

interface Button {
  label: string;
  accept?: boolean;
}
export const Dialog = {
  cancelButton: (button: Button): Button => ({ ...button, accept: false }),
  okButton: (button: Button): Button => ({ ...button, accept: true }),
  warnButton: (button: Button): Button => ({ ...button, accept: true }),
};

/** Press the button whose label is the next answer, after the dialog's body was drawn. */
export async function showDialog({ body, buttons }: { body: unknown; buttons: Button[] }): Promise<object> {
  if (body instanceof Widget) {
    Widget.attach(body, document.body);
    await new Promise(drawn => setTimeout(drawn, 50));
  }
  const wanted = answers.shift();
  return { button: buttons.find(({ label }) => label === wanted) ?? buttons[0] };
}

export const InputDialog = {
  getText: (): Promise<object> => {
    const value = answers.shift();
    return Promise.resolve({ button: { accept: value !== undefined }, value });
  },
};

export class WidgetTracker {
  private readonly widgets = new Set<Widget>();

  add(widget: Widget): Promise<void> {
    this.widgets.add(widget);
    widget.disposed.connect(() => this.widgets.delete(widget));
    return Promise.resolve();
  }

  find(wanted: (widget: Widget) => boolean): Widget | undefined {
    return [...this.widgets].find(wanted);
  }
}

export class LabIcon {
  constructor(readonly given: object) {}
}
export class ToolbarButton extends Widget {
  constructor(readonly given: { onClick: () => void }) {
    super();
  }
}

/** Requests of the server that the page is served by. */
export const server: { request: (url: string, init: RequestInit) => Promise<Response> } = {
  request: () => Promise.reject(new Error('no server')),
};
export const ServerConnection = {
  makeRequest: (url: string, init: RequestInit): Promise<Response> => server.request(url, init),
};

/** A cell: its text, its outputs, and the line that its editor shows. */
export class CodeCell extends Panel {
  readonly ready = Promise.resolve();
  shownLine: unknown = null;
  readonly editor = {
    getLine: (line: number): string | undefined => this.source.split('\n')[line],
    getCursorPosition: () => ({ line: 0, column: this.source.indexOf('\n') }),
    getOffsetAt: ({ column }: { column: number }): number => column,
    setSelection: ({ start }: { start: { line: number } }): unknown => (this.shownLine = start.line + 1),
    revealPosition: (): void => undefined,
    focus: (): void => undefined,
  };
  private written: unknown[] = [];
  readonly model = {
    type: 'code',
    executionState: 'idle',
    outputs: {
      changed: new Signal<object, void>({}),
      toJSON: (): unknown[] => this.written,
      fromJSON: (outputs: unknown[]): unknown => (this.written = outputs),
    },
    sharedModel: {
      getId: () => this.cellId,
      getSource: () => this.source,
      setSource: (source: string) => (this.source = source),
    },
  };

  constructor(
    readonly cellId: string,
    public source: string,
  ) {
    super();
    this.addClass('jp-Cell');
    const outputs = new Widget();
    outputs.addClass('jp-Cell-outputWrapper');
    this.addWidget(outputs);
  }
}

class Notebook extends Panel {
  activeCellIndex = 0;

  override get widgets(): readonly CodeCell[] {
    return super.widgets as readonly CodeCell[];
  }

  get activeCell(): CodeCell | undefined {
    return this.widgets[this.activeCellIndex];
  }

  deselectAll(): void {}

  scrollToCell(): Promise<void> {
    return Promise.resolve();
  }
}

/** An open notebook, and what its kernel was asked to execute. */
export class NotebookPanel extends Panel {
  readonly content = new Notebook();
  readonly revealed = Promise.resolve();
  readonly context;
  readonly executed: string[] = [];
  /** the kernel's answer whether it has nbdist */
  loaded = 'True';
  readonly sessionContext = {
    statusChanged: new Signal<object, string>({}),
    specsManager: { specs: null },
    session: {
      kernel: {
        name: 'python3',
        status: 'idle',
        requestExecute: ({ code }: { code: string }) => {
          this.executed.push(code);
          const loaded = { data: { 'text/plain': this.loaded } };
          return { done: Promise.resolve({ content: { status: 'ok', user_expressions: { loaded } } }) };
        },
      },
    },
  };

  constructor(path: string, sources: readonly string[]) {
    super();
    this.context = { localPath: path, path, ready: this.revealed, contentsModel: { last_modified: '' } };
    sources.forEach((source, at) => this.content.addWidget(new CodeCell(`a${at + 1}`, source)));
    this.addWidget(this.content);
    Widget.attach(this, document.body);
  }
}

export const NotebookActions = {
  executionScheduled: new Signal<object, { notebook: Notebook; cell: CodeCell }>({}),
  executed: new Signal<object, { notebook: object; cell: CodeCell; success: boolean }>({}),
  insertBelow: (notebook: Notebook): void => {
    notebook.activeCellIndex += 1;
    notebook.insertWidget(notebook.activeCellIndex, new CodeCell('new', ''));
  },
  run: (notebook: Notebook): Promise<void> => {
    NotebookActions.executionScheduled.emit({ notebook, cell: notebook.activeCell! });
    return Promise.resolve();
  },
};
