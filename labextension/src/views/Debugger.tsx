/** The prompt of held ranks: the values where they are held, their answers, and a line for commands. */
import { type KeyboardEvent, type ReactElement, useRef, useState } from 'react';

import type { DebugAnswers, RankView } from '../protocol/run';
import { localized } from '../words/languages';
import { words } from '../words/panel';

/** Send a command to ranks; return each answer with its ranks, null where no server passes it on. */
export type Ask = (ranks: readonly number[], command: string) => Promise<DebugAnswers | null>;

interface DebuggerProps {
  held: readonly RankView[];
  ask: Ask;
}

export function Debugger({ held, ask }: DebuggerProps): ReactElement | null {
  const [lines, setLines] = useState<readonly string[]>([]);
  const before = useRef<string[]>([]);
  const add = (...more: string[]): void => setLines(all => [...all, ...more]);
  const send = (command: string): Promise<DebugAnswers | null> =>
    ask(
      held.map(({ rank }) => rank),
      command,
    );
  const execute = async (command: string): Promise<void> => {
    before.current.unshift(command);
    add(`(Pdb) ${command}`);
    for (const { ranks, text } of (await send(command)) ?? [{ ranks: '', text: words.noDebugger }]) {
      if (text) {
        add((held.length > 1 && ranks ? `${ranks}: ` : '') + text);
      }
    }
  };
  const complete = async (box: HTMLTextAreaElement): Promise<void> => {
    const word = /\S*$/.exec(box.value)![0];
    const endings = (await send(`\t${box.value}`))?.[0]?.text.split('\n') ?? [];
    if (endings.length === 1) {
      box.value = box.value.slice(0, box.value.length - word.length) + endings[0];
    } else if (endings.length) {
      add(endings.join('  '));
    }
  };
  const key = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    const box = event.currentTarget;
    if (event.key === 'Enter' && !event.shiftKey) {
      void execute(box.value);
      box.value = '';
    } else if (event.key === 'Tab' && box.value.trim()) {
      void complete(box);
    } else if (event.key === 'ArrowUp' && before.current.length) {
      // the one before, and so on
      box.value = before.current[before.current.indexOf(box.value) + 1] ?? box.value;
    } else {
      return;
    }
    event.preventDefault();
  };
  if (!held.length && !lines.length) {
    return null;
  }
  return (
    <div className="nbdist-debugger" data-lm-suppress-shortcuts="true">
      {held.map(({ rank, exit, values }) => (
        <div key={rank}>
          {words.rankNumber(rank)}: {localized(exit)}
          {values.map(value => (
            <div className="nbdist-quiet" key={value}>
              {value}
            </div>
          ))}
        </div>
      ))}
      <pre role="log">{lines.join('\n')}</pre>
      {held.length > 0 && (
        <label className="nbdist-row">
          (Pdb)
          <textarea rows={1} aria-label={words.debugger} spellCheck={false} onKeyDown={key} />
        </label>
      )}
    </div>
  );
}
