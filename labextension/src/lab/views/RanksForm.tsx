/** The small form behind "Run on ranks": the first line of the cell, and the usual ranks at a click. */
import { type ReactElement, useEffect, useState } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import { bytesOf, dotted } from '../../words/formats';
import { useTheme } from '../../views/hooks';
import { Button } from '../../views/Marks';
import { withRanks } from '../cells/magic_line';
import type { Gpu } from '../services/client';
import { words } from '../../words/lab';

interface FormProps {
  before: string;
  gpus: readonly Gpu[];
  onChange: (line: string) => void;
}

export function RanksForm({ before, gpus, onChange }: FormProps): ReactElement {
  const [line, setLine] = useState(before);
  const { theme } = useTheme();
  useEffect(() => onChange(line), [onChange, line]);
  const free = gpus.filter(({ holders }) => !holders.length).map(({ index }) => index);
  const choices = [
    '-n 1',
    '-n 2',
    '-n 4',
    free.length && `--gpus ${free.join()}`,
    gpus.length && '--gpus all',
  ];
  return (
    <form className="nbdist nbdist-form" data-theme={theme} onSubmit={event => event.preventDefault()}>
      <label>
        <span className="nbdist-quiet">{words.formLine}</span>
        <input
          className="nbdist-field"
          type="text"
          spellCheck={false}
          value={line}
          onChange={event => setLine(event.currentTarget.value)}
        />
      </label>
      <div className="nbdist-row" role="group" aria-label={words.formRanks}>
        {choices.map(
          ranks =>
            ranks && <Button key={ranks} label={ranks} onClick={() => setLine(withRanks(line, ranks))} />,
        )}
      </div>
      {gpus.length === 0 && <p className="nbdist-quiet">{words.formNoGpus}</p>}
      {gpus.map(gpu => (
        <p key={gpu.index}>
          GPU {gpu.index} <span className="nbdist-quiet">{aboutGpu(gpu)}</span>
        </p>
      ))}
    </form>
  );
}

/** Return `NVIDIA H200 · 11.2/80 GB · used by python (4711)`, as far as it is known. */
function aboutGpu({ name, memory, memoryTotal, holders }: Gpu): string {
  const users = holders.map(each => each.runId ?? `${each.name} (${each.pid})`).join(', ');
  const use = memory !== null && memoryTotal !== null && bytesOf(memory, memoryTotal).join('/');
  return dotted(name, use, users && words.heldBy(users));
}
