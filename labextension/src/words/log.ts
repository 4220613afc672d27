/** The words of the log. */
import { bytes } from './formats';
import { grouped, inBoth, inPage, plural } from './languages';

const english = (count: number): string => (count < 1e6 ? `${grouped(count)} bytes` : bytes(count));
const chinese = (count: number): string => (count < 1e6 ? `${grouped(count)} 字节` : bytes(count));

export const LOG_WORDS = inBoth(tr => ({
  log: tr('Log', '日志'),
  tools: tr('Log tools', '日志工具'),
  search: tr('Search', '搜索'),
  previous: tr('Previous match', '上一个匹配'),
  next: tr('Next match', '下一个匹配'),
  follow: tr('Follow', '跟随'),
  wrap: tr('Wrap', '自动换行'),
  firstError: tr('First error', '首个错误'),
  tracebacks: tr('Tracebacks ({0} lines)', '调用栈（{0} 行）'),
  copy: tr('Copy', '复制'),
  download: tr('Download', '下载'),
  close: tr('Close', '关闭'),
  fullLine: tr('Full line', '整行'),
  empty: tr('No output yet.', '尚无输出。'),
  none: tr('No output.', '没有输出。'),
  lines: tr(
    (count: number, folded: number) =>
      `${grouped(count)} line${plural(count)}${folded ? `, ${grouped(folded)} folded` : ''}`,
    (count, folded) => `${grouped(count)} 行${folded ? `，${grouped(folded)} 行已折叠` : ''}`,
  ),
  newLines: tr('{n} new', '{n} 行新输出'),
  missing: tr(
    (count: number) =>
      `… ${count ? english(count) : 'some'} of this log did not reach this page. %dist_logs shows all`,
    count => `… 日志有${count ? ` ${chinese(count)} ` : '若干行'}未到达此页面。用 %dist_logs 查看全部`,
  ),
  skipped: tr(
    (count: number) => `… ${english(count)} of this log is not shown here. %dist_logs shows all`,
    count => `… 此处略过 ${chinese(count)}。用 %dist_logs 查看全部`,
  ),
  dropped: tr(
    (count: number) =>
      `… the first ${english(count)} of this log is no longer in this page. %dist_logs shows all`,
    count => `… 最早的 ${chinese(count)} 已不在此页面。用 %dist_logs 查看全部`,
  ),
  more: tr('… {n} more', '… 还有 {n} 个字符'),
  copied: tr('copied {n} line{s}', '已复制 {n} 行'),
  cannotCopy: tr('this page may not use the clipboard', '此页面无法使用剪贴板'),
  cellLine: tr('cell line {0}', '单元格第 {0} 行'),
  ranks: tr('ranks {0}', '进程 {0}'),
}));

/** The log's words in the page's language. */
export const logWords = inPage(LOG_WORDS);
