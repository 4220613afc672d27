/** What a dashboard does to its run, and what there is to say when that fails. */
import { useCallback, useEffect, useState } from 'react';

import { copy } from '../../clipboard';
import type { Notice } from '../../views/Notes';
import type { IRunService } from '../tokens';

/** milliseconds */
const BRIEFLY = 5000;

interface Deeds {
  stopping: boolean;
  notice: Notice | null;
  stop: () => void;
  copyText: (text: string) => void;
  interrupt: (rank: number) => void;
}

export function useDeeds(service: IRunService, runId: string, label: string): Deeds {
  const { client, words, panelWords } = service;
  const [stopping, setStopping] = useState(false);
  const [notice, setNotice] = useState<Notice | null>(null);
  useEffect(() => {
    if (!notice?.brief) {
      return;
    }
    const timer = setTimeout(() => setNotice(null), BRIEFLY);
    return () => clearTimeout(timer);
  }, [notice]);

  const stop = useCallback(() => {
    setStopping(true);
    client.stop(runId, 'dashboard').catch((failure: unknown) => {
      setStopping(false);
      setNotice({ text: words.stopFailed(label, messageOf(failure)) });
    });
  }, [client, runId, words, label]);
  const copyText = useCallback(
    (text: string) => {
      void copy(text).then(done =>
        setNotice(
          done ? { text: panelWords.copied(text), brief: true } : { text: panelWords.notCopied(text) },
        ),
      );
    },
    [panelWords],
  );
  const interrupt = useCallback(
    (rank: number) => {
      client.interrupt(runId, rank).catch((failure: unknown) => {
        setNotice({ text: words.failedTo(panelWords.interrupt(rank), messageOf(failure)) });
      });
    },
    [client, runId, words, panelWords],
  );
  return { stopping, notice, stop, copyText, interrupt };
}

function messageOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
