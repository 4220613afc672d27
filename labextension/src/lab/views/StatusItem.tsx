/** In the status bar: how many ranks run, and how busy the GPUs are. */
import { type ReactElement, useEffect, useState } from 'react';

import '../styles/lab.css';
import { bytesOf, percent } from '../../model/formats';
import type { Devices, Gpu } from '../services/client';
import { useRuns } from '../services/runs';
import type { IRunService } from '../tokens';
import { pageWords } from '../../words/panel';
import { labWords } from '../../words/lab';

/** milliseconds between two looks at the GPUs while something runs, and while nothing does */
const BUSY = 3000;
const IDLE = 20_000;
/** and where there are none */
const NONE = 600_000;

interface StatusProps {
  service: IRunService;
  gpus: boolean;
  onOpen: () => void;
}

export function StatusItem({ service, gpus, onOpen }: StatusProps): ReactElement | null {
  const words = labWords();
  const runs = useRuns(service.runs);
  const live = runs.liveRows;
  const ready = runs.state === 'ready';
  const devices = useDevices(service, ready && gpus, live.length > 0 ? BUSY : IDLE);
  if (!ready) {
    return null;
  }
  const stalled = sum(live.filter(row => row.stalled).map(row => row.worldSize));
  const idle = sum(live.filter(row => row.idle && !row.stalled).map(row => row.worldSize));
  const running = sum(live.map(row => row.worldSize)) - stalled - idle;
  const text = live.length
    ? words.statusRunning(running) +
      (stalled ? words.statusStalled(stalled) : '') +
      (idle ? words.statusWaiting(idle) : '')
    : words.statusIdle;
  return (
    <button type="button" className="nbdist-statusbar" title={words.showRuns} onClick={onOpen}>
      <span>{text}</span>
      {devices && devices.gpus.length > 0 && <GpuStrip gpus={devices.gpus} />}
    </button>
  );
}

function GpuStrip({ gpus }: { gpus: readonly Gpu[] }): ReactElement {
  const words = labWords();
  const used = gpus.filter(gpu => gpu.holders.length > 0 || (gpu.utilisation ?? 0) > 0).length;
  return (
    <span className="nbdist-gpus" role="img" aria-label={words.gpusInUse(used, gpus.length)}>
      {gpus.map(gpu => (
        <i key={gpu.index} title={words.gpu(gpu.index, gpu.name, aboutUse(gpu))}>
          <b style={{ height: percent(fullness(gpu) * 100).replace(' ', '') }} />
        </i>
      ))}
      <span>{words.gpusInUse(used, gpus.length)}</span>
    </span>
  );
}

/** Return the fraction of a GPU in use: of its time or its memory, whichever is more. */
function fullness({ utilisation, memory, memoryTotal }: Gpu): number {
  return Math.max((utilisation ?? 0) / 100, memory !== null && memoryTotal ? memory / memoryTotal : 0);
}

function aboutUse(gpu: Gpu): string {
  const use = gpu.utilisation === null ? '' : percent(gpu.utilisation);
  return [use, memoryText(gpu), holdersText(gpu) || labWords().free].filter(Boolean).join(pageWords().comma);
}

/** Return `11.2/80 GB`; empty where it is unknown. */
export function memoryText({ memory, memoryTotal }: Gpu): string {
  return memory !== null && memoryTotal ? bytesOf(memory, memoryTotal).join('/') : '';
}

/** Return the users of a GPU; empty for none. */
export function holdersText({ holders }: Gpu): string {
  const names = holders.map(({ name, pid, runId }) => runId ?? `${name} (${pid})`).join(', ');
  return names && labWords().heldBy(names);
}

function useDevices({ client }: IRunService, on: boolean, period: number): Devices | null {
  const [devices, setDevices] = useState<Devices | null>(null);
  const none = devices?.gpus.length === 0;
  useEffect(() => {
    if (!on) {
      return;
    }
    const refresh = (): void => {
      if (!document.hidden) {
        // a machine that does not answer has nothing new
        client.devices().then(setDevices, () => undefined);
      }
    };
    if (!none) {
      refresh();
    }
    const timer = setInterval(refresh, none ? NONE : period);
    return () => clearInterval(timer);
  }, [client, on, period, none]);
  return devices;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}
