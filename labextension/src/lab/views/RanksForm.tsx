/** The small form behind "Run on ranks": which ranks, and the line that it will write. */
import { type ReactElement, useEffect, useId, useState } from 'react';

import '../../styles/index.css';
import '../styles/lab.css';
import { useTheme } from '../../views/hooks';
import { firstLine, type Wanted, withFirstLine } from '../cells/magic_line';
import type { Gpu } from '../services/client';
import { labWords } from '../../words/lab';
import { holdersText, memoryText } from './StatusItem';

interface FormProps {
  source: string;
  before: Wanted;
  gpus: readonly Gpu[];
  onChange: (wanted: Wanted | null) => void;
}

const FRAMEWORKS = ['auto', 'torch', 'paddle', 'none'] as const;

/** Return the choices when they are complete; null when they are not. */
function complete(wanted: Wanted): Wanted | null {
  const { ranks } = wanted;
  return (ranks.kind === 'cpu' ? ranks.count >= 1 && ranks.count <= 1024 : ranks.ids.length > 0)
    ? wanted
    : null;
}

export function RanksForm({ source, before, gpus, onChange }: FormProps): ReactElement {
  const words = labWords();
  const [wanted, setWanted] = useState<Wanted>(before);
  const { theme } = useTheme();
  const names = useId();
  const { ranks } = wanted;
  const [count, setCount] = useState(ranks.kind === 'cpu' ? ranks.count : 2);
  const [ids, setIds] = useState<readonly number[]>(
    ranks.kind === 'gpus' ? ranks.ids : gpus.filter(free).map(gpu => gpu.index),
  );
  useEffect(() => onChange(complete(wanted)), [onChange, wanted]);
  const change = (part: Partial<Wanted>): void => setWanted(last => ({ ...last, ...part }));
  const onCpu = (number: number): void => {
    setCount(number);
    change({ ranks: { kind: 'cpu', count: number } });
  };
  const onGpus = (chosen: readonly number[]): void => {
    const sorted = [...chosen].sort((a, b) => a - b);
    setIds(sorted);
    change({ ranks: { kind: 'gpus', ids: sorted } });
  };
  const whole = complete(wanted);
  return (
    <form className="nbdist nbdist-form" data-theme={theme} onSubmit={event => event.preventDefault()}>
      <fieldset>
        <label>
          <input
            type="radio"
            name={names}
            checked={ranks.kind === 'cpu'}
            onChange={() => onCpu(count || 1)}
          />
          {words.formCpu}
        </label>
        <label className="nbdist-form-inner">
          {words.formRanks}
          <input
            type="number"
            min={1}
            max={1024}
            value={count}
            disabled={ranks.kind !== 'cpu'}
            onChange={event => onCpu(Number(event.currentTarget.value))}
          />
        </label>
        <label>
          <input
            type="radio"
            name={names}
            checked={ranks.kind === 'gpus'}
            disabled={gpus.length === 0}
            onChange={() => onGpus(ids)}
          />
          {words.formGpus}
        </label>
        {gpus.length === 0 && <p className="nbdist-form-inner nbdist-quiet">{words.formNoGpus}</p>}
        {gpus.map(gpu => (
          <label key={gpu.index} className="nbdist-form-inner">
            <input
              type="checkbox"
              checked={ids.includes(gpu.index)}
              disabled={ranks.kind !== 'gpus'}
              onChange={() =>
                onGpus(ids.includes(gpu.index) ? ids.filter(each => each !== gpu.index) : [...ids, gpu.index])
              }
            />
            GPU {gpu.index}
            <span className="nbdist-quiet">{aboutGpu(gpu)}</span>
          </label>
        ))}
      </fieldset>
      <label>
        {words.formName}
        <input
          type="text"
          value={wanted.name}
          maxLength={40}
          onChange={event => change({ name: event.currentTarget.value })}
        />
      </label>
      <label>
        {words.formFramework}
        <select value={wanted.framework} onChange={event => change({ framework: event.currentTarget.value })}>
          {FRAMEWORKS.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label>
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
          <code>{whole ? firstLine(withFirstLine(source, whole)) : words.formPickGpus}</code>
        </output>
      </div>
    </form>
  );
}

function free(gpu: Gpu): boolean {
  return gpu.holders.length === 0;
}

function aboutGpu(gpu: Gpu): string {
  return [gpu.name, memoryText(gpu), holdersText(gpu)].filter(Boolean).join(' · ');
}
