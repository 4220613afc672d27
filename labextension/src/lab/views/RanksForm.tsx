/** The small form behind "Run on ranks": which ranks, and the line that it will write. */
import { type ReactElement, useEffect, useId, useState } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import { bytesOf, dotted } from '../../words/formats';
import { useTheme } from '../../views/hooks';
import { firstLine, type Wanted, withFirstLine } from '../cells/magic_line';
import type { Gpu } from '../services/client';
import { words } from '../../words/lab';

interface FormProps {
  source: string;
  before: Wanted;
  gpus: readonly Gpu[];
  /** gets the choices when they are complete, null when they are not */
  onChange: (wanted: Wanted | null) => void;
}

const FRAMEWORKS = ['auto', 'torch', 'paddle', 'none'] as const;

export function RanksForm({ source, before, gpus, onChange }: FormProps): ReactElement {
  const [wanted, setWanted] = useState<Wanted>(before);
  const { theme } = useTheme();
  const names = useId();
  const { onGpus, count } = wanted;
  const complete = onGpus ? wanted.gpus.length > 0 : count >= 1 && count <= 1024;
  useEffect(() => onChange(complete ? wanted : null), [onChange, complete, wanted]);
  const change = (part: Partial<Wanted>): void => setWanted(last => ({ ...last, ...part }));
  const toggle = (gpu: number): void => {
    const others = wanted.gpus.filter(each => each !== gpu);
    const chosen = others.length < wanted.gpus.length ? others : [...others, gpu];
    change({ gpus: chosen.sort((a, b) => a - b) });
  };
  return (
    <form className="nbdist nbdist-form" data-theme={theme} onSubmit={event => event.preventDefault()}>
      <fieldset>
        <label className="nbdist-row">
          <input type="radio" name={names} checked={!onGpus} onChange={() => change({ onGpus: false })} />
          {words.formCpu}
        </label>
        <label className="nbdist-row nbdist-form-inner">
          {words.formRanks}
          <input
            className="nbdist-field"
            type="number"
            min={1}
            max={1024}
            value={count}
            disabled={onGpus}
            onChange={event => change({ count: Number(event.currentTarget.value) })}
          />
        </label>
        <label className="nbdist-row">
          <input
            type="radio"
            name={names}
            checked={onGpus}
            disabled={gpus.length === 0}
            onChange={() => change({ onGpus: true })}
          />
          {words.formGpus}
        </label>
        {gpus.length === 0 && <p className="nbdist-form-inner nbdist-quiet">{words.formNoGpus}</p>}
        {gpus.map(gpu => (
          <label key={gpu.index} className="nbdist-row nbdist-form-inner">
            <input
              type="checkbox"
              checked={wanted.gpus.includes(gpu.index)}
              disabled={!onGpus}
              onChange={() => toggle(gpu.index)}
            />
            GPU {gpu.index}
            <span className="nbdist-quiet">{aboutGpu(gpu)}</span>
          </label>
        ))}
      </fieldset>
      <label className="nbdist-row">
        {words.formName}
        <input
          className="nbdist-field"
          type="text"
          value={wanted.name}
          maxLength={40}
          onChange={event => change({ name: event.currentTarget.value })}
        />
      </label>
      <label className="nbdist-row">
        {words.formFramework}
        <select
          className="nbdist-field"
          value={wanted.framework}
          onChange={event => change({ framework: event.currentTarget.value })}
        >
          {FRAMEWORKS.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label className="nbdist-row">
        <input
          type="checkbox"
          checked={wanted.detach}
          onChange={event => change({ detach: event.currentTarget.checked })}
        />
        {words.formDetach}
      </label>
      <div className="nbdist-form-line">
        <span className="nbdist-quiet">{words.formLine}</span>
        <output>
          <code>{complete ? firstLine(withFirstLine(source, wanted)) : words.formPickGpus}</code>
        </output>
      </div>
    </form>
  );
}

/** Return `NVIDIA H200 · 11.2/80 GB · used by python (4711)`, as far as it is known. */
function aboutGpu({ name, memory, memoryTotal, holders }: Gpu): string {
  const users = holders.map(each => each.runId ?? `${each.name} (${each.pid})`).join(', ');
  const use = memory !== null && memoryTotal !== null && bytesOf(memory, memoryTotal).join('/');
  return dotted(name, use, users && words.heldBy(users));
}
