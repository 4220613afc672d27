/** What a log's screen is told, what it draws into, and what it tells the toolbar. */
import type { LogWords } from './words';

/** What the toolbar shows. */
export interface ScreenState {
  readonly following: boolean;
  /** lines that were written since following ended */
  readonly unseen: number;
  readonly wrapped: boolean;
  readonly searching: boolean;
  /** the current match, counted from 1; 0 for none */
  readonly current: number;
  readonly matches: number;
  readonly lines: number;
  readonly folded: number;
  readonly failed: boolean;
}

export const BEFORE_DRAWING: ScreenState = {
  following: true,
  unseen: 0,
  wrapped: false,
  searching: false,
  current: 0,
  matches: 0,
  lines: 0,
  folded: 0,
  failed: false,
};

export interface ScreenNodes {
  /** scrolls; holds `lines`, which is as high as all rows and holds `rows` */
  readonly scroller: HTMLElement;
  readonly lines: HTMLElement;
  readonly rows: HTMLElement;
  /** lines that still grow */
  readonly live: HTMLElement;
  /** an over-long line, whole */
  readonly detail: HTMLElement;
}

export interface ScreenLook {
  readonly words: LogWords;
  /** pixels left of a row's text */
  readonly margin: number;
  /** what is said when there are no rows */
  readonly empty: string;
  onCellLine(line: number): void;
}
