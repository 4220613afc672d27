/** What the dashboard, the sidebar and the notebook's controls say beyond the panel's words. */
import { inBoth, languageOf } from '../words';

export const LAB_WORDS = inBoth(say => ({
  title: say('Distributed runs', '分布式运行'),
  filter: say('Filter by name, notebook or state', '按名称、笔记本或状态筛选'),
  refresh: say('Refresh', '刷新'),
  active: say('Active', '进行中'),
  today: say('Today', '今天'),
  yesterday: say('Yesterday', '昨天'),
  justNow: say('now', '刚刚'),
  minutes: say('{0} min', '{0} 分钟'),
  hours: say('{0} h', '{0} 小时'),
  days: say('{0} d', '{0} 天'),
  ago: say(
    (age: string) => `${age} ago`,
    age => (age === '刚刚' ? age : `${age}前`),
  ),
  stalled: say('Stalled', '停滞'),
  groupBy: say('Group by', '分组方式'),
  grouping: {
    day: say('Day', '日期'),
    notebook: say('Notebook', '笔记本'),
    name: say('Name', '名称'),
  },
  noNotebookGroup: say('No notebook', '无笔记本'),
  check: say('Choose for comparing (space bar)', '选择以进行比较(空格键)'),
  noRuns: say('No runs yet. Begin a cell with', '还没有运行。在单元格首行写上'),
  noRunsThen: say('and run it.', '并运行它。'),
  noneFound: say(
    'No run has “{0}” in its name, notebook or state.',
    '没有名称、笔记本或状态包含“{0}”的运行。',
  ),
  loading: say('Asking the server…', '正在询问服务器…'),
  offline: say(
    'The Jupyter server does not answer. What is shown is how things were.',
    'Jupyter 服务器没有响应。显示的是之前的情况。',
  ),
  refused: say('The Jupyter server does not show these runs: {0}', 'Jupyter 服务器不显示这些运行:{0}'),
  absentTitle: say('The server’s side of nbdist is missing', '缺少 nbdist 的服务器部分'),
  absent: say(
    'This page has nbdist, the Jupyter server that it comes from has not. In the environment of the ' +
      'server (not the kernel’s) run',
    '此页面装有 nbdist,但提供它的 Jupyter 服务器没有。请在服务器(而非内核)的环境中运行',
  ),
  absentThen: say(
    'and start the server again. Until then %%distributed, its panel, Stop and the curves in notebooks ' +
      'work as ever; this list, the dashboard and completion do not.',
    '并重启服务器。在此之前,%%distributed、其面板、停止按钮和笔记本中的曲线照常可用;此列表、仪表板和补全不可用。',
  ),
  tryAgain: say('Try again', '重试'),
  open: say('Open', '打开'),
  attach: say('Attach', '附加'),
  attachHint: say('Show the run in the active notebook', '在当前笔记本中显示此运行'),
  reveal: say('Go to cell', '转到单元格'),
  stop: say('Stop', '停止'),
  delete: say('Delete', '删除'),
  compare: say('Compare {0} runs', '比较 {0} 个运行'),
  compareTitle: say('Compare runs', '比较运行'),
  clear: say('Clear selection', '取消选择'),
  selected: say('{0} selected', '已选 {0} 个'),
  deleteTitle: say('Delete {0}?', '删除 {0}?'),
  deleteBody: say(
    'Its logs, curves and program are removed from the disk.',
    '其日志、曲线和程序将从磁盘上删除。',
  ),
  stopFailed: say('{0} could not be stopped: {1}', '无法停止 {0}:{1}'),
  failedTo: say('{0}: {1}', '{0}:{1}'),
  noCellFound: say(
    (notebook: string) =>
      `The cell was not found${notebook ? ` in ${notebook}` : ''}: it may have been changed or removed.`,
    notebook => `未找到该单元格${notebook ? `(${notebook})` : ''}:它可能已被修改或删除。`,
  ),
  noNotebook: say('This run was not started from a notebook.', '此运行不是从笔记本启动的。'),
  device: say('Device', '设备'),
  stepColumn: say('Step: own time, then waiting', '单步:自身耗时,然后等待'),
  stepColumnShort: say('Step: own + waiting', '单步:自身 + 等待'),
  stacks: say('Stacks', '调用栈'),
  takingStacks: say('Asking the ranks where they are…', '正在采集各进程的调用栈…'),
  board: say('VisualDL', 'VisualDL'),
  boardStarting: say('Starting VisualDL…', '正在启动 VisualDL…'),
  boardFailed: say('VisualDL could not be opened: {0}', '无法打开 VisualDL:{0}'),
  fullLog: say('Whole log', '完整日志'),
  gone: say('This run cannot be shown: {0}', '无法显示此运行:{0}'),
  waiting: say('Waiting for the run…', '正在等待运行…'),
  disconnected: say(
    'Not connected to the server; trying again. The run goes on.',
    '与服务器的连接已断开,正在重试。运行仍在继续。',
  ),
  statusRunning: say('Ranks: {0} running', '进程:{0} 个运行中'),
  statusStalled: say(', {0} stalled', ',{0} 个停滞'),
  statusIdle: say('No runs', '没有运行'),
  gpusInUse: say('GPU {0} of {1} in use', 'GPU 已用 {0}/{1}'),
  gpu: say('GPU {0} {1}: {2}', 'GPU {0} {1}:{2}'),
  free: say('free', '空闲'),
  heldBy: say('used by {0}', '由 {0} 使用'),
  noticeFinished: say('{0} finished after {1}', '{0} 已完成,用时 {1}'),
  noticeFailed: say(
    (label: string, headline: string) => `${label} failed${headline && `: ${headline}`}`,
    (label, headline) => `${label} 失败${headline && `:${headline}`}`,
  ),
  noticeStopped: say('{0} was stopped', '{0} 已停止'),
  noticeStalled: say('{0} has stalled', '{0} 已停滞'),
  notInKernel: say(
    'The kernel of this notebook has no nbdist. Run  %pip install nbdist  in a cell of its own, then this one again.',
    '此笔记本的内核没有安装 nbdist。请在单独的单元格中运行 %pip install nbdist,然后重新运行此单元格。',
  ),
  runOnRanks: say('Run on ranks…', '在多个进程上运行…'),
  runOnRanksHint: say('Run this cell on several processes or GPUs', '在多个进程或 GPU 上运行此单元格'),
  formTitle: say('Run on ranks', '在多个进程上运行'),
  formCpu: say('On the CPU', '使用 CPU'),
  formRanks: say('Ranks', '进程数'),
  formGpus: say('On GPUs', '使用 GPU'),
  formNoGpus: say('This server sees no GPU.', '此服务器上没有 GPU。'),
  formPickGpus: say('Choose at least one GPU.', '请至少选择一个 GPU。'),
  formName: say('Name', '名称'),
  formFramework: say('Framework', '框架'),
  formDetach: say('Go on without the notebook (detached)', '脱离笔记本继续运行'),
  formLine: say('First line of the cell', '单元格首行'),
  formWrite: say('Write', '写入'),
  formRun: say('Write and run', '写入并运行'),
  cancel: say('Cancel', '取消'),
  showRuns: say('Show distributed runs', '显示分布式运行'),
  openLatest: say('Open the latest distributed run', '打开最近的分布式运行'),
  category: say('Distributed', '分布式'),
}));

type LabWords = (typeof LAB_WORDS)['en'];

/** These words in the page's language. */
export function labWords(): LabWords {
  return LAB_WORDS[languageOf()];
}
