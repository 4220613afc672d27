/** Options of `%%distributed` and `%%ranks` while they are typed, and what they do when one points at them. */
import { type EditorView, hoverTooltip, type Tooltip } from '@codemirror/view';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import {
  type CompletionHandler,
  type ICompletionContext,
  type ICompletionProvider,
  ICompletionProviderManager,
} from '@jupyterlab/completer';

import '../styles/links.css';
import { element } from '../../page/nodes';
import { localized } from '../../words/languages';
import { complete, magicsAt, optionAt, optionsOf } from '../cells/magic_line';
import type { Option } from '../services/client';
import { IRunService } from '../tokens';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:completion',
  description: 'Completion and help for the options of %%distributed and %%ranks.',
  autoStart: true,
  requires: [IRunService],
  optional: [ICompletionProviderManager, IEditorExtensionRegistry],
  activate: (
    _app: JupyterFrontEnd,
    service: IRunService,
    completers: ICompletionProviderManager | null,
    editors: IEditorExtensionRegistry | null,
  ): void => {
    const options = new KnownOptions(service);
    completers?.registerProvider(new OptionCompleter(options));
    completers?.registerProvider(new MagicCompleter());
    editors?.addExtension({
      name: 'nbdist:option-help',
      factory: () =>
        EditorExtensionRegistry.createImmutableExtension(
          hoverTooltip((view, position) => helpAt(view, position, options)),
        ),
    });
  },
};

export default plugin;

/** Asked for once, when they are first needed; nothing where the server has no nbdist. */
class KnownOptions {
  private answer: Promise<readonly Option[]> | null = null;

  constructor(private readonly service: IRunService) {}

  get(): Promise<readonly Option[]> {
    if (this.service.runs.state === 'absent') {
      return Promise.resolve([]);
    }
    this.answer ??= this.service.client.options().catch(() => {
      this.answer = null;
      return [];
    });
    return this.answer;
  }
}

class OptionCompleter implements ICompletionProvider {
  readonly identifier = 'nbdist:options';
  /** in front of what the kernel says, which knows files and magics but no options */
  readonly rank = 1200;

  constructor(private readonly options: KnownOptions) {}

  isApplicable(context: ICompletionContext): Promise<boolean> {
    const { editor } = context;
    const typing = editor?.getCursorPosition().line === 0;
    return Promise.resolve(typing && optionsOf(editor.getLine(0) ?? '') !== null);
  }

  async fetch(
    _request: CompletionHandler.IRequest,
    context: ICompletionContext,
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const column = context.editor?.getCursorPosition().column ?? 0;
    const completion = complete(context.editor?.getLine(0) ?? '', column, await this.options.get());
    return {
      start: completion?.start ?? column,
      end: column,
      items: (completion?.items ?? []).map(({ text, label, option }) => ({
        // JupyterLab explains what is selected in a pane that is off unless it is chosen
        label: `${label} · ${localized(option.help)}`,
        insertText: text,
        type: 'option',
        documentation: localized(option.help),
      })),
    };
  }
}

class MagicCompleter implements ICompletionProvider {
  readonly identifier = 'nbdist:magics';
  readonly rank = 400;

  isApplicable({ editor }: ICompletionContext): Promise<boolean> {
    return Promise.resolve(this.at(editor).names.length > 0);
  }

  fetch(
    _request: CompletionHandler.IRequest,
    { editor }: ICompletionContext,
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const { start, names } = this.at(editor);
    const { line, column } = editor!.getCursorPosition();
    const before = editor!.getOffsetAt({ line, column: 0 });
    const items = names.map(name => ({ label: name, type: 'magic' }));
    return Promise.resolve({ start: before + start, end: before + column, items });
  }

  private at(editor: ICompletionContext['editor']): ReturnType<typeof magicsAt> {
    const { line, column } = editor?.getCursorPosition() ?? { line: 0, column: 0 };
    return magicsAt(editor?.getLine(line) ?? '', column);
  }
}

async function helpAt(view: EditorView, position: number, options: KnownOptions): Promise<Tooltip | null> {
  const line = view.state.doc.line(1);
  if (position > line.to || optionsOf(line.text) === null) {
    return null;
  }
  const match = optionAt(line.text, position, await options.get());
  if (!match) {
    return null;
  }
  return {
    pos: match.from,
    end: match.to,
    above: true,
    create: () => ({ dom: helpNode(match.option) }),
  };
}

function helpNode({ flags, metavar, help, choices }: Option): HTMLElement {
  const node = element('div', 'nbdist-help');
  node.append(element('code', '', `${flags.join(', ')} ${metavar}`.trimEnd()), ` ${localized(help)}`);
  if (choices.length) {
    node.append(` (${choices.join(', ')})`);
  }
  return node;
}
