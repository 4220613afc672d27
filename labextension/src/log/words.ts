/** The words of the log, in English and Chinese. */

export interface LogWords {
  log: string;
  tools: string;
  search: string;
  previous: string;
  next: string;
  position: string;
  follow: string;
  pause: string;
  wrap: string;
  firstError: string;
  differences: string;
  copy: string;
  download: string;
  close: string;
  fullLine: string;
  empty: string;
  noDifferences: string;
  lines(count: number, folded: number): string;
  newLines(count: number): string;
  missing(count: number): string;
  skipped(bytes: number): string;
  dropped(count: number): string;
  more(characters: number): string;
  copied(count: number): string;
  cannotCopy: string;
  cellLine(line: number): string;
  ranks(label: string): string;
}

const number = (value: number): string => value.toLocaleString('en-US');
const s = (count: number): string => (count === 1 ? '' : 's');

export const en: LogWords = {
  log: 'Log',
  tools: 'Log tools',
  search: 'Search',
  previous: 'Previous match',
  next: 'Next match',
  position: 'Log position',
  follow: 'Follow',
  pause: 'Pause',
  wrap: 'Wrap',
  firstError: 'First error',
  differences: 'Only differences',
  copy: 'Copy',
  download: 'Download',
  close: 'Close',
  fullLine: 'Full line',
  empty: 'No output yet.',
  noDifferences: 'All ranks wrote the same.',
  lines: (count, folded) => `${number(count)} line${s(count)}${folded ? `, ${number(folded)} folded` : ''}`,
  newLines: count => `${number(count)} new`,
  missing: count =>
    !count
      ? '… lines have not reached this page; %dist_logs has them'
      : `… ${number(count)} line${s(count)} ${count === 1 ? 'has' : 'have'} not reached this page; %dist_logs has them`,
  skipped: bytes => `… ${number(bytes)} bytes are not shown here; %dist_logs has them`,
  dropped: count =>
    `… ${number(count)} earlier line${s(count)} ${count === 1 ? 'is' : 'are'} no longer in this page; %dist_logs has them`,
  more: characters => `… ${number(characters)} more`,
  copied: count => `copied ${number(count)} line${s(count)}`,
  cannotCopy: 'this page may not use the clipboard',
  cellLine: line => `cell line ${line}`,
  ranks: label => `ranks ${label}`,
};

export const zh: LogWords = {
  log: '日志',
  tools: '日志工具',
  search: '搜索',
  previous: '上一个匹配',
  next: '下一个匹配',
  position: '日志位置',
  follow: '跟随',
  pause: '暂停',
  wrap: '自动换行',
  firstError: '首个错误',
  differences: '仅看差异',
  copy: '复制',
  download: '下载',
  close: '关闭',
  fullLine: '整行',
  empty: '尚无输出。',
  noDifferences: '所有进程的输出相同。',
  lines: (count, folded) => `${number(count)} 行${folded ? `,${number(folded)} 行已折叠` : ''}`,
  newLines: count => `${number(count)} 行新输出`,
  missing: count =>
    !count
      ? '… 有若干行未到达此页面;用 %dist_logs 查看'
      : `… 有 ${number(count)} 行未到达此页面;用 %dist_logs 查看`,
  skipped: bytes => `… 此处略过 ${number(bytes)} 字节;用 %dist_logs 查看`,
  dropped: count => `… 较早的 ${number(count)} 行已不在此页面;用 %dist_logs 查看`,
  more: characters => `… 还有 ${number(characters)} 个字符`,
  copied: count => `已复制 ${number(count)} 行`,
  cannotCopy: '此页面无法使用剪贴板',
  cellLine: line => `单元格第 ${line} 行`,
  ranks: label => `进程 ${label}`,
};

export const logWords: Readonly<Record<'en' | 'zh', LogWords>> = { en, zh };
