/** The list of runs at the left, and the commands on runs that need no notebook. */
import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
} from '@jupyterlab/application';
import { Dialog, ICommandPalette, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { Menu } from '@lumino/widgets';
import { createElement } from 'react';

import { messageOf } from '../../page/nodes';
import type { RunRow } from '../services/client';
import { COMMANDS, type Execute, IRunService, runIn } from '../tokens';
import { words } from '../../words/lab';
import { words as panelWords } from '../../words/panel';
import { ranksIcon, ViewWidget } from './view_widget';

const ID = 'nbdist-runs';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'nbdist:sidebar',
  description: 'The list of distributed runs.',
  autoStart: true,
  requires: [IRunService],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    service: IRunService,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
  ): void => {
    addCommands(app, service);
    addMarking(app.commands, service);
    // its own, since JupyterLab's would have the items of the whole sidebar, too
    const menu = new Menu({ commands: app.commands });
    const openMenu = (at: { x: number; y: number }, runId: string, checked: string[]): void => {
      menu.clearItems();
      const { open, attach, reveal, againWith, scale, pin, tag, note, stop, remove } = COMMANDS;
      for (const command of [open, attach, reveal, againWith, scale, pin, tag, note, stop, remove]) {
        menu.addItem({ command, args: { runId } });
      }
      menu.addItem({ command: COMMANDS.compare, args: { runIds: checked } });
      menu.open(at.x, at.y);
    };
    const sidebar = new ViewWidget(async () => {
      void service.runs.begin();
      const { Sidebar } = await import('../views/Sidebar');
      const execute: Execute = (command, args) => void app.commands.execute(command, { ...args });
      return createElement(Sidebar, { service, execute, openMenu });
    });
    sidebar.id = ID;
    sidebar.title.icon = ranksIcon;
    sidebar.title.caption = words.title;
    // Notebook 7 has a menu of its sidebars, which shows labels
    sidebar.title.label = lab ? '' : words.title;
    app.shell.add(sidebar, 'left', { rank: 450, type: 'Distributed runs' });
    restorer?.add(sidebar, ID);
    app.commands.addCommand(COMMANDS.show, {
      label: words.title,
      icon: ranksIcon,
      execute: () => app.shell.activateById(ID),
    });

    palette?.addItem({ command: COMMANDS.show, category: words.category });
    launcher?.add({ command: COMMANDS.show, category: 'Other', rank: 5 });
  },
};

export default plugin;

function addCommands({ commands }: JupyterFrontEnd, service: IRunService): void {
  const { runs, client } = service;
  commands.addCommand(COMMANDS.stop, {
    label: panelWords.stop,
    isVisible: args => runs.row(runIn(args))?.live ?? false,
    execute: async args => {
      const runId = runIn(args);
      if (runId) {
        const label = runs.row(runId)?.label ?? runId;
        await notifyIfRejected(client.stop(runId, 'list'), problem => words.stopFailed(label, problem));
      }
    },
  });
  commands.addCommand(COMMANDS.stopSweep, {
    label: words.stopSweep,
    isVisible: ({ sweepId }) => typeof sweepId === 'string',
    execute: async ({ sweepId }) => {
      if (typeof sweepId === 'string') {
        const label = sweepId.split('-').slice(2).join('-');
        await notifyIfRejected(client.stopSweep(sweepId, 'list'), problem =>
          words.stopFailed(label, problem),
        );
      }
    },
  });
  commands.addCommand(COMMANDS.remove, {
    label: words.delete,
    isVisible: args => runs.row(runIn(args))?.live === false,
    execute: async args => {
      const row = runs.row(runIn(args));
      if (!row || row.live) {
        return;
      }
      const { button } = await showDialog({
        title: words.deleteTitle(row.label),
        body: words.deleteBody,
        buttons: [Dialog.cancelButton({ label: words.cancel }), Dialog.warnButton({ label: words.delete })],
      });
      if (button.accept) {
        const done = await notifyIfRejected(client.remove(row.runId), problem =>
          panelWords.named(words.delete, problem),
        );
        if (done) {
          runs.forget(row.runId);
        }
      }
    },
  });
}

/** Add the commands that change the user's marks of a run. */
function addMarking(commands: JupyterFrontEnd['commands'], { runs, client }: IRunService): void {
  type Change = Parameters<typeof client.mark>[1];
  const add = (
    command: string,
    label: (row: RunRow | undefined) => string,
    ask: (row: RunRow) => Promise<Change | null>,
  ): void => {
    commands.addCommand(command, {
      label: args => label(runs.row(runIn(args))),
      execute: async args => {
        const row = runs.row(runIn(args));
        const change = row && (await ask(row));
        if (change) {
          const marked = client.mark(row.runId, change).then(changed => runs.update(changed));
          await notifyIfRejected(marked, problem => panelWords.named(label(row), problem));
        }
      },
    });
  };
  const textOf = async (title: string, text: string): Promise<string | null> => {
    const { button, value } = await InputDialog.getText({ title, text });
    return button.accept ? (value ?? '').trim() : null;
  };
  add(
    COMMANDS.pin,
    row => (row?.pinned ? words.unpin : words.pin),
    ({ pinned }) => Promise.resolve({ pinned: !pinned }),
  );
  add(
    COMMANDS.tag,
    () => words.tag,
    async ({ label, tags }) => {
      const text = await textOf(words.tagsOf(label), tags.join(', '));
      return text === null ? null : { tags: text.split(/\s*[,，、]\s*/).filter(Boolean) };
    },
  );
  add(
    COMMANDS.note,
    () => words.note,
    async ({ label, note }) => {
      const text = await textOf(words.noteOn(label), note);
      return text === null ? null : { note: text };
    },
  );
}

/** Return true when `done` resolves; if it rejects, notify the user. */
async function notifyIfRejected(
  done: Promise<void>,
  describe: (problem: string) => string,
): Promise<boolean> {
  try {
    await done;
    return true;
  } catch (problem) {
    Notification.error(describe(messageOf(problem)));
    return false;
  }
}
