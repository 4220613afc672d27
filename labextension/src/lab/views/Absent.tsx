/** What to do when the page has nbdist and its server has not. */
import type { ReactElement } from 'react';

import type { LabWords } from '../words';
import { LabButton } from './LabIcons';

export function Absent({ words, onTry }: { words: LabWords; onTry: () => void }): ReactElement {
  return (
    <div className="nbdist-absent" role="status">
      <b>{words.absentTitle}</b>
      <p>
        {words.absent} <code>pip install nbdist</code> {words.absentThen}
      </p>
      <LabButton icon="refresh" label={words.tryAgain} onClick={onTry} />
    </div>
  );
}
