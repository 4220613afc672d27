/** The panel's header, and the ways from a run to its notebook. */
import type { ReactElement } from 'react';

import { Header, type HeaderProps } from '../../views/Header';
import type { LabWords } from '../words';
import { LabButton } from './LabIcons';

interface HeadProps extends HeaderProps {
  labWords: LabWords;
  /** whether there is room for words on all buttons */
  roomy: boolean;
  onReveal: () => void;
  onAttach: () => void;
}

export function DashboardHead({ labWords, roomy, onReveal, onAttach, ...header }: HeadProps): ReactElement {
  return (
    <div className="nbdist-dash-head">
      <div className="nbdist-dash-title">
        <Header {...header} />
      </div>
      <LabButton icon="cell" label={labWords.reveal} bare={!roomy} onClick={onReveal} />
      <LabButton icon="attach" label={labWords.attach} title={labWords.attachHint} bare onClick={onAttach} />
    </div>
  );
}
