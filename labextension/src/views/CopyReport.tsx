/** The button that copies a run as one text, for a colleague or an assistant. */
import { type ReactElement, useEffect, useState } from 'react';

import { copy } from '../page/nodes';
import { words } from '../words/panel';
import { Button } from './Marks';
import type { Notice } from './Notes';

/** milliseconds */
const BRIEFLY = 2000;

interface CopyReportProps {
  report: () => Promise<string | null>;
  label: string;
  notify: (notice: Notice) => void;
}

export function CopyReport({ report, label, notify }: CopyReportProps): ReactElement {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setCopied(false), BRIEFLY);
    return () => clearTimeout(timer);
  }, [copied]);
  const take = async (): Promise<void> => {
    const text = await report();
    if (text !== null && (await copy(text))) {
      setCopied(true);
    } else {
      notify({ text: words.noReport(label) });
    }
  };
  return (
    <Button icon="copy" label={copied ? words.reportCopied : words.copyReport} onClick={() => void take()} />
  );
}
