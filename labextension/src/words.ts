/** What the panel and its log say, in English and Chinese. What JupyterLab's pages say beyond that is in lab/words.ts. */
import type { Said } from './decode';
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

/** Takes a word in both languages, or, where it is more than a text to fill in, what makes it. */
interface Say {
  <Text extends string>(en: Text, zh: string): Word<Text>;
  <All extends unknown[]>(
    en: (...given: All) => string,
    zh: (...given: All) => string,
  ): (...given: All) => string;
}

/** A table of words in each language. */
export function inBoth<Table>(table: (say: Say) => Table): Readonly<Record<Language, Table>> {
  const pick = (language: 0 | 1): Table =>
    table(((...both: unknown[]) => {
      const word = both[language];
      return typeof word === 'string' && word.includes('{0}') ? filledIn(word) : word;
    }) as Say);
  return { en: pick(0), zh: pick(1) };
}

function filledIn(text: string): (...given: Given[]) => string {
  return (...given) => text.replace(/\{(\d)\}/g, (_open, at: string) => String(given[Number(at)]));
}

/** The page's language where it says one, else the browser's. */
export function languageOf(page: Document = document, browser = navigator.language): Language {
  return (page.documentElement.lang || browser).toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

/** What the kernel's side says in both languages, in that of the page. */
export function told(said: Said): string {
  return said[languageOf()];
}

const number = (value: number): string => value.toLocaleString('en-US');
const english = (count: number): string => (count < 1e6 ? `${number(count)} bytes` : bytes(count));
const chinese = (count: number): string => (count < 1e6 ? `${number(count)} 字节` : bytes(count));
const s = (count: number): string => (count === 1 ? '' : 's');

export const WORDS = inBoth(say => ({
  run: {
    pending: say('Queued', '排队中'),
    starting: say('Starting', '启动中'),
    running: say('Running', '运行中'),
    stopping: say('Stopping', '停止中'),
    finished: say('Finished', '已完成'),
    failed: say('Failed', '失败'),
    stopped: say('Stopped', '已停止'),
    lost: say('Lost', '失联'),
  },
  idle: say('Idle', '空闲'),
  rankState: {
    pending: say('Waiting', '等待中'),
    running: say('Running', '运行中'),
    finished: say('Finished', '已完成'),
    failed: say('Failed', '失败'),
    stopped: say('Stopped', '已停止'),
    lost: say('Lost', '失联'),
  },
  panel: say('Distributed run {0}', '分布式运行 {0}'),
  ranks: say(
    (count: number) => (count === 1 ? '1 rank' : `${count} ranks`),
    count => `${count} 个进程`,
  ),
  nodes: say('{0} nodes × {1} ranks', '{0} 个节点 × {1} 个进程'),
  unevenNodes: say('{0} nodes, {1} ranks', '{0} 个节点,{1} 个进程'),
  progress: say('Progress', '进度'),
  left: say('{0} left', '剩余 {0}'),
  elapsed: say('elapsed', '已用时'),
  stoppedAt: say(
    (percent: string, text: string) => `stopped at ${percent}${text && `, ${text}`}`,
    (percent, text) => `停止于 ${percent}${text && `,${text}`}`,
  ),
  stop: say('Stop', '停止'),
  stopping: say('Stopping…', '正在停止…'),
  menu: say('Run menu', '运行菜单'),
  charts: say('Charts', '曲线'),
  logs: say('Log', '日志'),
  dashboard: say('Dashboard', '仪表板'),
  openDashboard: say('Open dashboard', '打开仪表板'),
  runAgain: say('Run again', '重新运行'),
  runAgainWith: say('Run again with…', '更改选项后重新运行…'),
  copyCell: say('Run again with… (copy cell)', '更改选项后重新运行(复制单元格)'),
  cellCopied: say(
    'The cell of this run is copied. Paste it into a new cell, change the options in its first line, and run it.',
    '已复制此运行的单元格。请粘贴到新单元格中,修改首行的选项,然后运行。',
  ),
  goesOnFrom: say('goes on from {0}', '继续自 {0}'),
  exportRun: say('Export', '导出'),
  copyName: say('Copy run name', '复制运行名称'),
  showAgain: say('Show again (copy command)', '再次显示(复制命令)'),
  copied: say('Copied: {0}', '已复制:{0}'),
  copyReport: say('Copy report', '复制报告'),
  reportCopied: say('Copied', '已复制'),
  noReport: say(
    'The report cannot be had from here now. Run %dist_explain --copy {0} in a cell, or nbdist explain --copy {0} in a terminal.',
    '此处暂时无法取得报告。请在单元格中运行 %dist_explain --copy {0}，或在终端中运行 nbdist explain --copy {0}。',
  ),
  copyByHand: say(
    'This page may not copy. The report is selected: copy it with the keyboard.',
    '此页面无法复制。报告已选中，请用键盘复制。',
  ),
  notCopied: say('This page may not copy. The text is: {0}', '此页面无法复制,内容为:{0}'),
  openBoard: say('Open VisualDL', '打开 VisualDL'),
  boardAsked: say('Asking the kernel for VisualDL…', '正在请内核打开 VisualDL…'),
  boardAt: say('VisualDL is open in another tab.', 'VisualDL 已在另一个标签页中打开。'),
  boardBlocked: say('The browser kept the new tab from opening:', '浏览器阻止了新标签页:'),
  boardLater: say(
    'The kernel is busy. When the cell is free, run %dist_board {0} in a cell.',
    '内核正忙。单元格空闲后,请在单元格中运行 %dist_board {0}。',
  ),
  boardProblem: say('VisualDL could not be opened: {0}', '无法打开 VisualDL:{0}'),
  cannotStop: say(
    'This page cannot interrupt the kernel. Press the interrupt button (■) of the cell or its toolbar, or run %dist_stop {0} in another notebook.',
    '此页面无法中断内核。请按单元格或其工具栏的中断按钮(■),或在另一个笔记本中运行 %dist_stop {0}。',
  ),
  waiting: say('Waiting for the first news from the kernel…', '正在等待内核的第一条消息…'),
  noNews: say(
    'No news from the kernel since {0}; the run goes on: %dist_attach {1} shows it again.',
    '自 {0} 起没有内核的消息;运行仍在继续:%dist_attach {1} 可再次显示。',
  ),
  noNewsForeground: say(
    'No news from the kernel since {0}. If the run still goes on, %dist_attach {1} shows it again.',
    '自 {0} 起没有内核的消息。若运行仍在继续,%dist_attach {1} 可再次显示。',
  ),
  neverNews: say(
    'No news from the kernel. %dist_attach shows the latest run again.',
    '没有内核的消息。%dist_attach 可再次显示最近的运行。',
  ),
  rankList: say('Ranks', '进程'),
  rank: say('Rank', '进程'),
  rankNumber: say('Rank {0}', '进程 {0}'),
  node: say('node {0}', '节点 {0}'),
  rate: say('{0} step/s', '{0} 步/秒'),
  own: say('{0} ms own', '自身 {0} 毫秒'),
  andMilliseconds: say('+ {0} ms', '+ {0} 毫秒'),
  ownAndWaiting: say('{0} ms own, {1} ms waiting for others', '自身耗时 {0} 毫秒,等待其他进程 {1} 毫秒'),
  failedFirst: say('Failed first', '最先失败'),
  cause: say('Cause', '原因'),
  fix: say('Fix', '解决方法'),
  known: say('Known', '已知'),
  toCell: say('Line {0} of the cell', '单元格第 {0} 行'),
  toLog: say('Log of rank {0}', '进程 {0} 的日志'),
  heat: say('What the colours show', '颜色表示'),
  heatOf: say('{0} of {1} ranks', '{1} 个进程的{0}'),
  utilisation: say('Utilisation', '利用率'),
  memory: say('Memory', '内存'),
  gpuMemory: say('GPU memory', '显存'),
  stepRate: say('Step rate', '速率'),
  onTheWhole: {
    utilisation: say('Mean utilisation', '平均利用率'),
    memory: say('Peak memory', '内存峰值'),
    gpuMemory: say('Peak GPU memory', '显存峰值'),
    stepRate: say('Mean step rate', '平均速率'),
  },
  inputs: say('From the notebook', '来自笔记本'),
  results: say('Results', '结果'),
  lastLine: say('Last line', '最后一行'),
  state: say('State', '状态'),
  close: say('Close', '关闭'),
  states: say(
    (count: number, word: string) => `${count} ${word.toLowerCase()}`,
    (count, word) => `${count} 个${word}`,
  ),
  which: say(
    (ranks: string, more: boolean) => `: rank ${ranks}${more ? ', …' : ''}`,
    (ranks, more) => `:进程 ${ranks}${more ? '…' : ''}`,
  ),
  lowest: say('{0} at {1}, median {2}', '{0}:{1},中位数 {2}'),
  median: say('median {0}', '中位数 {0}'),
  views: say('Logs, metrics, cell', '日志、指标、单元格'),
  all: say('All', '全部'),
  errors: say(
    (count: number) => (count === 1 ? '1 error line' : `${count} error lines`),
    count => `${count} 行错误`,
  ),
  pickRank: say('Rank…', '进程…'),
  pickRankLabel: say('Show the log of rank (number)', '显示该进程(编号)的日志'),
  metrics: say('Metrics', '指标'),
  cell: say('Cell', '单元格'),
  noCell: say('The program of this run has not come yet.', '此运行的程序尚未收到。'),
  noMetrics: say('Nothing has been logged yet. In the cell,', '尚未记录任何指标。在单元格中调用'),
  leftOut: say(
    (count: number) =>
      `${number(count)} more metric${s(count)} ha${count === 1 ? 's' : 've'} no chart here: VisualDL shows all.`,
    count => `另有 ${number(count)} 项指标在此没有图表:VisualDL 会显示全部指标。`,
  ),
  noMetricsThen: say('makes curves here.', '即可在此绘制曲线。'),
  stalled: say('Stalled', '停滞'),
  heldUp: say('Held up', '受阻'),
  slowest: say('Slowest', '最慢'),
  slowBy: say('+{0} ms', '+{0} 毫秒'),
  slowTimes: say('×{0}', '×{0}'),
  noProgress: say(
    (seconds: number, more: boolean) => `No progress for ${seconds} s${more ? ': ' : ''}`,
    (seconds, more) => `${seconds} 秒没有进展${more ? ':' : ''}`,
  ),
  keepWaiting: say('Keep waiting', '继续等待'),
  interrupt: say('Interrupt rank {0}', '中断进程 {0}'),
  stacks: say('Stacks', '调用栈'),
  stacksTaken: say(
    (time: string, groups: number) =>
      `taken at ${time}, main thread, ${groups === 1 ? 'one group' : `${groups} groups`}`,
    (time, groups) => `采集于 ${time},主线程,${groups} 组`,
  ),
  takeAgain: say('Take again', '重新采集'),
  allThreads: say('All threads', '全部线程'),
  thread: say('Thread {0}', '线程 {0}'),
  cellLine: say('cell line {0}', '单元格第 {0} 行'),
  builtIn: say('built-in', '内置'),
  download: say('Download', '下载'),
  axis: say('Horizontal axis', '横轴'),
  step: say('Step', '步数'),
  time: say('Time', '时间'),
  meanOf: say('mean of {0} ranks', '{0} 个进程的平均值'),
  lowestToHighest: say('lowest to highest', '最低到最高'),
  asLogged: say('unsmoothed', '原始值'),
  smoothing: say('Smoothing', '平滑'),
  smooth: say('smoothed', '平滑后'),
  off: say('off', '关'),
  someMetrics: say('{0} of {1} metrics', '{1} 项指标中的 {0} 项'),
  allMetrics: say('All metrics', '全部指标'),
  mean: say('mean', '平均'),
  log: say('Log', '对数'),
  logScale: say('Logarithmic scale', '对数刻度'),
  to: say('{0} to {1}', '{0} 至 {1}'),
  highest: say('highest {0} on rank {1}', '最高 {0},进程 {1}'),
  points: say('no values yet', '尚无数值'),
  tags: {
    cpu: say('CPU', 'CPU'),
    gpu: say('GPU utilisation', 'GPU 利用率'),
    memory: say('Memory', '内存'),
    gpu_memory: say('GPU memory', '显存'),
  } as Record<string, string>,
  // runs beside each other
  comparedRuns: say('Compared runs', '所比较的运行'),
  columnsShown: say('Columns ({0})', '列({0})'),
  columnsDiffering: say('Those that differ', '有差别的'),
  columnsAll: say('All', '全部'),
  sortBy: say('Sort by {0}', '按 {0} 排序'),
  drawAll: say('Draw the curves of all runs', '绘制所有运行的曲线'),
  drawRun: say('Draw the curves of {0}', '绘制 {0} 的曲线'),
  zoomHint: say('drag to zoom, double-click for all', '拖动可放大,双击还原'),
  yes: say('yes', '是'),
  no: say('no', '否'),
  atStep: say('at step {0}', '第 {0} 步'),
  groups: {
    sweep: say('sweep', '扫描'),
    run: say('run', '运行'),
    last: say('last', '最后值'),
    best: say('best', '最佳值'),
    hparam: say('hyperparameter', '超参数'),
    argument: say('argument', '参数'),
    option: say('option', '选项'),
    input: say('input', '输入'),
    code: say('program', '程序'),
    version: say('version', '版本'),
    machine: say('machine', '机器'),
    time: say('time', '时间'),
  },
  columns: {
    state: say('state', '状态'),
    failure: say('cause', '原因'),
    duration: say('duration', '时长'),
    resumed: say('goes on from', '继续自'),
    notebook: say('notebook', '笔记本'),
    script: say('script', '脚本'),
    commit: say('commit', '提交'),
    clean: say('no changes since', '提交后无改动'),
    program: say('lines', '代码行'),
    ranks: say('ranks', '进程数'),
    devices: say('devices', '设备'),
    gpus: say('GPUs', 'GPU 型号'),
    wait: say('waiting for others', '等待其他进程'),
    cpu: say('of one core', '占一个核心'),
    gpu: say('of the GPU', '占 GPU'),
  },
  sweepTitle: say('Sweep', 'Sweep'),
  sweepPoints: say('{0} of {1} points', '{0}/{1} 个点'),
  sweepFailed: say('{0} failed', '{0} 个失败'),
  sweepRunning: say('{0} running', '{0} 个运行中'),
  sweepWaiting: say('{0} waiting', '{0} 个等待'),
  sweepOpen: say('Show this run in a cell:', '在单元格中显示此运行：'),
  sweepNotBegun: say('{0} waits for room.', '{0} 正在等待空位。'),
}));

type Words = (typeof WORDS)['en'];

/** The panel's words in the page's language. */
export function pageWords(): Words {
  return WORDS[languageOf()];
}

export const LOG_WORDS = inBoth(say => ({
  log: say('Log', '日志'),
  tools: say('Log tools', '日志工具'),
  search: say('Search', '搜索'),
  previous: say('Previous match', '上一个匹配'),
  next: say('Next match', '下一个匹配'),
  position: say('Log position', '日志位置'),
  follow: say('Follow', '跟随'),
  pause: say('Pause', '暂停'),
  wrap: say('Wrap', '自动换行'),
  firstError: say('First error', '首个错误'),
  differences: say('Only differences', '仅看差异'),
  copy: say('Copy', '复制'),
  download: say('Download', '下载'),
  close: say('Close', '关闭'),
  fullLine: say('Full line', '整行'),
  empty: say('No output yet.', '尚无输出。'),
  noDifferences: say('All ranks wrote the same.', '所有进程的输出相同。'),
  lines: say(
    (count: number, folded: number) =>
      `${number(count)} line${s(count)}${folded ? `, ${number(folded)} folded` : ''}`,
    (count, folded) => `${number(count)} 行${folded ? `,${number(folded)} 行已折叠` : ''}`,
  ),
  newLines: say(
    (count: number) => `${number(count)} new`,
    count => `${number(count)} 行新输出`,
  ),
  missing: say(
    (count: number) =>
      `… ${count ? english(count) : 'some'} of this log has not reached this page; %dist_logs has it`,
    count => `… 日志有${count ? ` ${chinese(count)} ` : '若干行'}未到达此页面;用 %dist_logs 查看`,
  ),
  skipped: say(
    (count: number) => `… ${english(count)} of this log is not shown here; %dist_logs has it`,
    count => `… 此处略过 ${chinese(count)};用 %dist_logs 查看`,
  ),
  dropped: say(
    (count: number) =>
      `… the earlier ${english(count)} of this log is no longer in this page; %dist_logs has it`,
    count => `… 较早的 ${chinese(count)} 已不在此页面;用 %dist_logs 查看`,
  ),
  more: say(
    (characters: number) => `… ${number(characters)} more`,
    characters => `… 还有 ${number(characters)} 个字符`,
  ),
  copied: say(
    (count: number) => `copied ${number(count)} line${s(count)}`,
    count => `已复制 ${number(count)} 行`,
  ),
  cannotCopy: say('this page may not use the clipboard', '此页面无法使用剪贴板'),
  cellLine: say('cell line {0}', '单元格第 {0} 行'),
  ranks: say('ranks {0}', '进程 {0}'),
}));

/** The log's words in the page's language. */
export function logWords(): (typeof LOG_WORDS)['en'] {
  return LOG_WORDS[languageOf()];
}
