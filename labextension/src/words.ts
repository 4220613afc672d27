/** The words of the panel and its log, in English and Chinese. lab/words.ts has those of JupyterLab's pages. */
import type { Bilingual } from './decode';
import { bytes } from './numbers';

export type Language = 'en' | 'zh';

type Given = string | number;

/** A text, or what fills in what is left open in it: `{0}`, and `{1}`, and `{2}`. */
type Word<Text extends string> = Text extends `${string}{2}${string}`
  ? (first: Given, second: Given, third: Given) => string
  : Text extends `${string}{1}${string}`
    ? (first: Given, second: Given) => string
    : Text extends `${string}{0}${string}`
      ? (only: Given) => string
      : string;

/** Takes a word in both languages: a text with open places, or a function that makes it. */
interface Translate {
  <Text extends string>(en: Text, zh: string): Word<Text>;
  <All extends unknown[]>(
    en: (...given: All) => string,
    zh: (...given: All) => string,
  ): (...given: All) => string;
}

/** Return a table of words in each language. */
export function inBoth<Table>(table: (tr: Translate) => Table): Readonly<Record<Language, Table>> {
  const pick = (language: 0 | 1): Table =>
    table(((...both: unknown[]) => {
      const word = both[language];
      return typeof word === 'string' && word.includes('{0}') ? filledIn(word) : word;
    }) as Translate);
  return { en: pick(0), zh: pick(1) };
}

function filledIn(text: string): (...given: Given[]) => string {
  return (...given) => text.replace(/\{(\d)\}/g, (_open, at: string) => String(given[Number(at)]));
}

/** Return true for Simplified Chinese: readers of Traditional Chinese get English. */
export function isChinese(locale: string): boolean {
  return /^zh(?![-_](tw|hk|mo|hant))/i.test(locale);
}

/** Return the page's language where it says one, else the browser's. */
export function languageOf(page: Document = document, browser = navigator.language): Language {
  return isChinese(page.documentElement.lang || browser) ? 'zh' : 'en';
}

/** Return the text in the page's language. */
export function localized(sentence: Bilingual): string {
  return sentence[languageOf()];
}

const number = (value: number): string => value.toLocaleString('en-US');
const english = (count: number): string => (count < 1e6 ? `${number(count)} bytes` : bytes(count));
const chinese = (count: number): string => (count < 1e6 ? `${number(count)} 字节` : bytes(count));
const s = (count: number): string => (count === 1 ? '' : 's');

export const WORDS = inBoth(tr => ({
  run: {
    pending: tr('Queued', '排队中'),
    starting: tr('Starting', '启动中'),
    running: tr('Running', '运行中'),
    stopping: tr('Stopping', '停止中'),
    finished: tr('Finished', '已完成'),
    failed: tr('Failed', '失败'),
    stopped: tr('Stopped', '已停止'),
    lost: tr('Lost', '失联'),
  },
  idle: tr('Idle', '空闲'),
  rankState: {
    pending: tr('Waiting', '等待中'),
    running: tr('Running', '运行中'),
    finished: tr('Finished', '已完成'),
    failed: tr('Failed', '失败'),
    stopped: tr('Stopped', '已停止'),
    lost: tr('Lost', '失联'),
  },
  panel: tr('Distributed run {0}', '分布式运行 {0}'),
  ranks: tr(
    (count: number) => (count === 1 ? '1 rank' : `${count} ranks`),
    count => `${count} 个进程`,
  ),
  nodes: tr('{0} nodes × {1} ranks', '{0} 个节点 × {1} 个进程'),
  unevenNodes: tr('{0} nodes, {1} ranks', '{0} 个节点，{1} 个进程'),
  progress: tr('Progress', '进度'),
  left: tr('{0} left', '剩余 {0}'),
  elapsed: tr('{0} elapsed', '用时 {0}'),
  stoppedAt: tr(
    (percent: string, text: string) => `ended at ${percent}${text && `, ${text}`}`,
    (percent, text) => `结束于 ${percent}${text && `，${text}`}`,
  ),
  stop: tr('Stop', '停止'),
  stopping: tr('Stopping…', '正在停止…'),
  stopNow: tr('Stop now', '立即停止'),
  stopNowTitle: tr('End the ranks at once: what they save is cut', '立即结束各进程：正在保存的内容会中断'),
  showDetails: tr('Show ranks, log and charts', '显示进程、日志和曲线'),
  hideDetails: tr('Hide ranks, log and charts', '隐藏进程、日志和曲线'),
  menu: tr('Run menu', '运行菜单'),
  charts: tr('Charts', '曲线'),
  logs: tr('Log', '日志'),
  dashboard: tr('Dashboard', '仪表板'),
  openDashboard: tr('Open dashboard', '打开仪表板'),
  runAgain: tr('Run again', '重新运行'),
  resumeFrom: tr('Resume from {0}', '从 {0} 恢复运行'),
  runAgainWith: tr('Run again with…', '更改选项后重新运行…'),
  copyCell: tr('Run again with… (copy cell)', '更改选项后重新运行（复制单元格）'),
  cellCopied: tr(
    'The cell of this run is copied. Paste it into a new cell, change the options in its first line, and run it.',
    '已复制此运行的单元格。请粘贴到新单元格中，修改首行的选项，然后运行。',
  ),
  goesOnFrom: tr('resumed from {0}', '从 {0} 恢复'),
  exportRun: tr('Export', '导出'),
  copyName: tr('Copy run name', '复制运行名称'),
  showAgain: tr('Show again (copy command)', '再次显示（复制命令）'),
  copied: tr('Copied: {0}', '已复制：{0}'),
  copyReport: tr('Copy report', '复制报告'),
  reportCopied: tr('Copied', '已复制'),
  noReport: tr(
    'The report is not available here now. Run %dist_explain --copy {0} in a cell, or nbdist explain --copy {0} in a terminal.',
    '此处暂时无法取得报告。请在单元格中运行 %dist_explain --copy {0}，或在终端中运行 nbdist explain --copy {0}。',
  ),
  copyByHand: tr(
    'This page may not use the clipboard. The report is selected: copy it with the keyboard.',
    '此页面无法使用剪贴板。报告已选中，请用键盘复制。',
  ),
  notCopied: tr('This page may not use the clipboard. The text is: {0}', '此页面无法使用剪贴板。内容为：{0}'),
  openBoard: tr('Open VisualDL', '打开 VisualDL'),
  boardAsked: tr('Opening VisualDL…', '正在打开 VisualDL…'),
  boardAt: tr('VisualDL is open in another tab.', 'VisualDL 已在另一个标签页中打开。'),
  boardBlocked: tr('The browser blocked the new tab:', '浏览器阻止了新标签页：'),
  boardLater: tr(
    'The kernel is busy. When the cell is free, run %dist_board {0} in a cell.',
    '内核正忙。单元格空闲后，请在单元格中运行 %dist_board {0}。',
  ),
  boardProblem: tr('VisualDL could not be opened: {0}', '无法打开 VisualDL：{0}'),
  cannotStop: tr(
    'This page cannot interrupt the kernel. Press the interrupt button (■) of the cell or its toolbar, or run %dist_stop {0} in another notebook.',
    '此页面无法中断内核。请按单元格或其工具栏的中断按钮（■），或在另一个笔记本中运行 %dist_stop {0}。',
  ),
  waiting: tr('Waiting for the first message from the kernel…', '正在等待内核的第一条消息…'),
  noNews: tr(
    'No message from the kernel since {0}: the run may have ended. %dist_attach {1} shows how it stands.',
    '自 {0} 起没有内核的消息，运行可能已结束。%dist_attach {1} 可显示其现状。',
  ),
  neverNews: tr(
    'No message from the kernel. %dist_attach shows the latest run again.',
    '没有内核的消息。%dist_attach 可再次显示最近的运行。',
  ),
  rankList: tr('Ranks', '进程'),
  rank: tr('Rank', '进程'),
  rankNumber: tr('Rank {0}', '进程 {0}'),
  node: tr('node {0}', '节点 {0}'),
  rate: tr('{0} step/s', '{0} 步/秒'),
  own: tr('{0} ms busy', '自身用时 {0} 毫秒'),
  andMilliseconds: tr('+ {0} ms', '+ {0} 毫秒'),
  ownAndWaiting: tr('{0} ms busy, {1} ms waiting for others', '自身用时 {0} 毫秒，等待其他进程 {1} 毫秒'),
  failedFirst: tr('Failed first', '最先失败'),
  cause: tr('Cause', '原因'),
  fix: tr('Fix', '解决方法'),
  known: tr('Details', '详情'),
  calls: tr('Calls to the error', '到出错位置的调用'),
  toCell: tr('Line {0} of the cell', '单元格第 {0} 行'),
  toLog: tr('Log of rank {0}', '进程 {0} 的日志'),
  heat: tr('Colour by', '着色依据'),
  heatOf: tr('{0} of {1} ranks', '{1} 个进程的{0}'),
  utilisation: tr('Utilisation', '利用率'),
  memory: tr('Memory', '内存'),
  gpuMemory: tr('GPU memory', '显存'),
  stepRate: tr('Step rate', '速率'),
  onTheWhole: {
    utilisation: tr('Mean utilisation', '平均利用率'),
    memory: tr('Peak memory', '内存峰值'),
    gpuMemory: tr('Peak GPU memory', '显存峰值'),
    stepRate: tr('Mean step rate', '平均速率'),
  },
  inputs: tr('From the notebook', '来自笔记本'),
  results: tr('Results', '结果'),
  lastLine: tr('Last line', '最后一行'),
  state: tr('State', '状态'),
  close: tr('Close', '关闭'),
  states: tr(
    (count: number, word: string) => `${count} ${word.toLowerCase()}`,
    (count, word) => `${count} 个${word}`,
  ),
  which: tr(
    (ranks: string, more: boolean) => `: rank ${ranks}${more ? ', …' : ''}`,
    (ranks, more) => `：进程 ${ranks}${more ? '…' : ''}`,
  ),
  lowest: tr('{0} at {1}, median {2}', '{0}：{1}，中位数 {2}'),
  median: tr('median {0}', '中位数 {0}'),
  views: tr('Logs, metrics, cell', '日志、指标、单元格'),
  all: tr('All', '全部'),
  errors: tr(
    (count: number) => (count === 1 ? '1 error line' : `${count} error lines`),
    count => `${count} 行错误`,
  ),
  pickRank: tr('Rank…', '进程…'),
  pickRankLabel: tr('Show the log of rank (number)', '显示该进程（编号）的日志'),
  metrics: tr('Metrics', '指标'),
  cell: tr('Cell', '单元格'),
  noCell: tr('The program of this run has not arrived yet.', '尚未收到此运行的程序。'),
  noMetrics: tr('Nothing has been logged yet. In the cell,', '尚未记录任何指标。在单元格中调用'),
  leftOut: tr(
    (count: number) =>
      `${number(count)} more metric${s(count)} ha${count === 1 ? 's' : 've'} no chart here. VisualDL shows all.`,
    count => `另有 ${number(count)} 项指标在此没有图表。VisualDL 会显示全部指标。`,
  ),
  noMetricsThen: tr('makes curves here.', '即可在此绘制曲线。'),
  stalled: tr('Stalled', '停滞'),
  heldUp: tr('Stuck', '卡住'),
  slowest: tr('Slowest', '最慢'),
  slowBy: tr('+{0} ms', '+{0} 毫秒'),
  slowTimes: tr('×{0}', '×{0}'),
  noProgress: tr(
    (seconds: number, more: boolean) => `No progress for ${seconds} s${more ? ': ' : ''}`,
    (seconds, more) => `${seconds} 秒没有进展${more ? '：' : ''}`,
  ),
  keepWaiting: tr('Keep waiting', '继续等待'),
  interrupt: tr('Interrupt rank {0}', '中断进程 {0}'),
  stacks: tr('Stacks', '调用栈'),
  stacksTaken: tr(
    (time: string, groups: number) =>
      `taken at ${time}, main thread, ${groups === 1 ? 'one group' : `${groups} groups`}`,
    (time, groups) => `采集于 ${time}，主线程，${groups} 组`,
  ),
  takeAgain: tr('Take again', '重新采集'),
  allThreads: tr('All threads', '全部线程'),
  thread: tr('Thread {0}', '线程 {0}'),
  cellLine: tr('cell line {0}', '单元格第 {0} 行'),
  builtIn: tr('built-in', '内置'),
  download: tr('Download', '下载'),
  axis: tr('Horizontal axis', '横轴'),
  step: tr('Step', '步数'),
  time: tr('Time', '时间'),
  meanOf: tr('mean of {0} ranks', '{0} 个进程的平均值'),
  lowestToHighest: tr('lowest to highest', '最低到最高'),
  asLogged: tr('unsmoothed', '原始值'),
  smoothing: tr('Smoothing', '平滑'),
  smooth: tr('smoothed', '平滑后'),
  off: tr('off', '关'),
  someMetrics: tr('{0} of {1} metrics', '{1} 项指标中的 {0} 项'),
  allMetrics: tr('All metrics', '全部指标'),
  mean: tr('mean', '平均'),
  log: tr('Log', '对数'),
  logScale: tr('Logarithmic scale', '对数刻度'),
  to: tr('{0} to {1}', '{0} 至 {1}'),
  highest: tr('highest {0} on rank {1}', '最高 {0}，进程 {1}'),
  points: tr('no values yet', '尚无数值'),
  tags: {
    cpu: tr('CPU', 'CPU'),
    gpu: tr('GPU utilisation', 'GPU 利用率'),
    memory: tr('Memory', '内存'),
    gpu_memory: tr('GPU memory', '显存'),
  } as Record<string, string>,
  // runs beside each other
  comparedRuns: tr('Compared runs', '所比较的运行'),
  columnsShown: tr('Columns ({0})', '列（{0}）'),
  columnsDiffering: tr('Only differences', '仅看差异'),
  columnsAll: tr('All', '全部'),
  sortBy: tr('Sort by {0}', '按 {0} 排序'),
  drawAll: tr('Draw the curves of all runs', '绘制所有运行的曲线'),
  drawRun: tr('Draw the curves of {0}', '绘制 {0} 的曲线'),
  zoomHint: tr('drag to zoom, double-click for all', '拖动可放大，双击还原'),
  comma: tr(', ', '，'),
  named: tr('{0}: {1}', '{0}：{1}'),
  yes: tr('yes', '是'),
  no: tr('no', '否'),
  atStep: tr('at step {0}', '第 {0} 步'),
  groups: {
    sweep: tr('sweep', '参数扫描'),
    run: tr('run', '运行'),
    last: tr('last', '最后值'),
    best: tr('best', '最佳值'),
    hparam: tr('hyperparameter', '超参数'),
    argument: tr('argument', '参数'),
    option: tr('option', '选项'),
    input: tr('input', '输入'),
    code: tr('program', '程序'),
    version: tr('version', '版本'),
    machine: tr('machine', '机器'),
    time: tr('time', '时间'),
  },
  columns: {
    state: tr('state', '状态'),
    failure: tr('cause', '原因'),
    duration: tr('duration', '用时'),
    resumed: tr('resumed from', '恢复自'),
    notebook: tr('notebook', '笔记本'),
    script: tr('script', '脚本'),
    commit: tr('commit', '提交'),
    clean: tr('unchanged since commit', '提交后无改动'),
    program: tr('lines', '代码行'),
    ranks: tr('ranks', '进程数'),
    devices: tr('devices', '设备'),
    gpus: tr('GPUs', 'GPU 型号'),
    wait: tr('waiting for others', '等待其他进程'),
    cpu: tr('CPU use (one core)', 'CPU 占用（单核）'),
    gpu: tr('GPU use', 'GPU 占用'),
  },
  // the monitor
  attach: tr('Attach', '显示面板'),
  asOf: tr('As of {0}: the kernel is busy or has gone.', '截至 {0}：内核正忙或已停止。'),
  sweepTitle: tr('Sweep', '参数扫描'),
  sweepPoints: tr('{0} of {1} points', '{0}/{1} 个点'),
  sweepFailed: tr('{0} failed', '{0} 个失败'),
  sweepRunning: tr('{0} running', '{0} 个运行中'),
  sweepWaiting: tr('{0} waiting', '{0} 个等待'),
  sweepOpen: tr('Show this run in a cell:', '在单元格中显示此运行：'),
  sweepNotBegun: tr('{0} has not started yet.', '{0} 尚未启动。'),
}));

type Words = (typeof WORDS)['en'];

/** Return the panel's words in the page's language. */
export function pageWords(): Words {
  return WORDS[languageOf()];
}

export const LOG_WORDS = inBoth(tr => ({
  log: tr('Log', '日志'),
  tools: tr('Log tools', '日志工具'),
  search: tr('Search', '搜索'),
  previous: tr('Previous match', '上一个匹配'),
  next: tr('Next match', '下一个匹配'),
  position: tr('Log position', '日志位置'),
  follow: tr('Follow', '跟随'),
  pause: tr('Pause', '暂停'),
  wrap: tr('Wrap', '自动换行'),
  firstError: tr('First error', '首个错误'),
  differences: tr('Only differences', '仅看差异'),
  tracebacks: tr('Tracebacks ({0} lines)', '调用栈（{0} 行）'),
  copy: tr('Copy', '复制'),
  download: tr('Download', '下载'),
  close: tr('Close', '关闭'),
  fullLine: tr('Full line', '整行'),
  empty: tr('No output yet.', '尚无输出。'),
  none: tr('No output.', '没有输出。'),
  noDifferences: tr('All ranks wrote the same.', '所有进程的输出相同。'),
  lines: tr(
    (count: number, folded: number) =>
      `${number(count)} line${s(count)}${folded ? `, ${number(folded)} folded` : ''}`,
    (count, folded) => `${number(count)} 行${folded ? `，${number(folded)} 行已折叠` : ''}`,
  ),
  newLines: tr(
    (count: number) => `${number(count)} new`,
    count => `${number(count)} 行新输出`,
  ),
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
  more: tr(
    (characters: number) => `… ${number(characters)} more`,
    characters => `… 还有 ${number(characters)} 个字符`,
  ),
  copied: tr(
    (count: number) => `copied ${number(count)} line${s(count)}`,
    count => `已复制 ${number(count)} 行`,
  ),
  cannotCopy: tr('this page may not use the clipboard', '此页面无法使用剪贴板'),
  cellLine: tr('cell line {0}', '单元格第 {0} 行'),
  ranks: tr('ranks {0}', '进程 {0}'),
}));

/** Return the log's words in the page's language. */
export function logWords(): (typeof LOG_WORDS)['en'] {
  return LOG_WORDS[languageOf()];
}
