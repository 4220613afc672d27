/** Options of `%%distributed` and `%%ranks`, and magics, while they are typed. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  type CompletionHandler,
  type ICompletionContext,
  type ICompletionProvider,
  ICompletionProviderManager,
} from '@jupyterlab/completer';

import { localized } from '../../words/languages';
import { complete, type Completion, magicsAt, optionsOf } from '../cells/magic_line';
import type { Option } from '../services/client';
import { IRunService } from '../tokens';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:completion',
  description: 'Completion of magics and of the options of %%distributed and %%ranks.',
  autoStart: true,
  requires: [IRunService],
  optional: [ICompletionProviderManager],
  activate: (
    _app: JupyterFrontEnd,
    service: IRunService,
    completers: ICompletionProviderManager | null,
  ): void => {
    const options = knownOptions(service);
    const optionsAt = async (line: string, column: number, row: number): Promise<Completion | null> =>
      row === 0 && optionsOf(line) !== null ? complete(line, column, await options()) : null;
    completers?.registerProvider(new Completer('nbdist:options', 1200, optionsAt));
    const magics = (line: string, column: number) => Promise.resolve(magicsAt(line, column));
    completers?.registerProvider(new Completer('nbdist:magics', 400, magics));
  },
};

export default plugin;

/** Return what asks for the options once, when they are first needed; none where the server has no nbdist. */
function knownOptions({ client, runs }: IRunService): () => Promise<readonly Option[]> {
  let answer: Promise<readonly Option[]> | null = null;
  const ask = (): Promise<readonly Option[]> =>
    client.options().catch(() => {
      answer = null;
      return [];
    });
  return () => (runs.state === 'absent' ? Promise.resolve([]) : (answer ??= ask()));
}

/** Completes at the cursor: options in front of what the kernel says, which knows files and magics but no options;
 * magics behind it, as a kernel knows them only once nbdist is loaded. */
class Completer implements ICompletionProvider {
  constructor(
    readonly identifier: string,
    readonly rank: number,
    private readonly at: (line: string, column: number, row: number) => Promise<Completion | null>,
  ) {}

  async isApplicable(context: ICompletionContext): Promise<boolean> {
    return (await this.fetch(null, context)).items.length > 0;
  }

  async fetch(
    _request: unknown,
    { editor }: ICompletionContext,
  ): Promise<CompletionHandler.ICompletionItemsReply> {
    const { line, column } = editor?.getCursorPosition() ?? { line: 0, column: 0 };
    const before = editor?.getOffsetAt({ line, column: 0 }) ?? 0;
    const completion = await this.at(editor?.getLine(line) ?? '', column, line);
    const items = (completion?.items ?? []).map(({ text, label, option }) => ({
      // JupyterLab explains what is selected in a pane that is off unless it is chosen
      label: option ? `${label} · ${localized(option.help)}` : label,
      insertText: text,
      type: option ? 'option' : 'magic',
      ...(option && { documentation: localized(option.help) }),
    }));
    return { start: before + (completion?.start ?? column), end: before + column, items };
  }
}
