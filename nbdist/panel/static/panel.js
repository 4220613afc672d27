/**
 * The panel of a run: header, rank strip, tabs, log. One model of what has arrived, any number of
 * views that draw it. Log lines come as binary messages and are kept here, in a bounded ring, never
 * in widget state; only the rows that can be seen are in the document.
 */

const ROW = 20;
const LINES_KEPT = 20000;
const ANSI = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

const WORDS = {
  en: {
    pending: 'Queued', starting: 'Starting', running: 'Running', stopping: 'Stopping',
    succeeded: 'Finished', failed: 'Failed', cancelled: 'Stopped', ended: 'Ended', lost: 'Lost',
    waiting: 'Waiting', ranks: n => `${n} rank${n === 1 ? '' : 's'}`, rank: 'Rank', elapsed: 'elapsed', stop: 'Stop', all: 'All',
    asked: 'Stopping…', log: 'Log', empty: 'No output yet.', search: 'Search', follow: 'Follow',
    previous: 'Previous match', next: 'Next match', newLines: n => `${n} new`,
    missing: n => `… ${n} lines did not reach this page; %dist_logs has them`,
    skipped: n => `… ${n} bytes not shown here; %dist_logs has them`,
    cannotStop: 'This page could not interrupt the kernel. Press ■ in the toolbar, or run nbdist’s stop from another notebook: %dist_stop',
  },
  zh: {
    pending: '排队中', starting: '启动中', running: '运行中', stopping: '停止中',
    succeeded: '已完成', failed: '失败', cancelled: '已停止', ended: '已退出', lost: '失联',
    waiting: '等待中', ranks: n => `${n} 个进程`, rank: '进程', elapsed: '已用时', stop: '停止', all: '全部',
    asked: '正在停止…', log: '日志', empty: '尚无输出。', search: '搜索', follow: '跟随',
    previous: '上一个匹配', next: '下一个匹配', newLines: n => `${n} 行新输出`,
    missing: n => `… 有 ${n} 行未到达此页面;用 %dist_logs 查看`,
    skipped: n => `… 此处略过 ${n} 字节;用 %dist_logs 查看`,
    cannotStop: '此页面无法中断内核。请按工具栏的 ■,或在另一个笔记本中运行 %dist_stop',
  },
};

const language = () => (document.documentElement.lang || '').toLowerCase().startsWith('zh') ? 'zh' : 'en';

/** What has arrived of a run. Calls its listeners at most once a frame. */
class Store {
  constructor() {
    this.view = null;
    this.viewAt = 0;
    this.all = new Ring();
    this.ranks = new Map();
    this.listeners = new Set();
    this.scheduled = false;
  }

  rank(rank) {
    if (!this.ranks.has(rank)) {
      this.ranks.set(rank, { ring: new Ring(), next: 0, partial: '' });
    }
    return this.ranks.get(rank);
  }

  receive(content, buffers) {
    if (content.kind !== 'update') {
      return;
    }
    this.view = content.view;
    this.viewAt = performance.now();
    content.deltas.forEach((delta, index) => this.take(delta, buffers[index]));
    this.notify();
  }

  take(delta, buffer) {
    const words = WORDS[language()];
    const log = this.rank(delta.rank);
    const lines = delta.count ? new TextDecoder().decode(buffer).split('\n') : [];
    if (delta.first > log.next) {
      this.push(delta.rank, words.missing(delta.first - log.next), true);
      log.next = delta.first;
    }
    if (delta.skipped && delta.first === log.next) {
      this.push(delta.rank, words.skipped(delta.skipped), true);
    }
    for (const line of lines.slice(log.next - delta.first)) {
      this.push(delta.rank, line.replace(ANSI, ''), false);
    }
    log.next = Math.max(log.next, delta.first + lines.length);
    log.partial = delta.partial.replace(ANSI, '');
  }

  push(rank, text, lost) {
    const entry = { rank, text, lost };
    this.rank(rank).ring.push(entry);
    this.all.push(entry);
  }

  notify() {
    if (!this.scheduled) {
      this.scheduled = true;
      requestAnimationFrame(() => {
        this.scheduled = false;
        this.listeners.forEach(listener => listener());
      });
    }
  }
}

/** The last LINES_KEPT entries; positions count from the first that ever came. */
class Ring {
  constructor() {
    this.items = [];
    this.dropped = 0;
  }

  push(entry) {
    this.items.push(entry);
    // dropping in blocks keeps a push cheap
    if (this.items.length > LINES_KEPT * 1.25) {
      const excess = this.items.length - LINES_KEPT;
      this.items.splice(0, excess);
      this.dropped += excess;
    }
  }
}

const element = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  if (text !== undefined) {
    node.textContent = text;
  }
  return node;
};

const setText = (node, text) => {
  if (node.textContent !== text) {
    node.textContent = text;
  }
};

const colour = rank => `var(--nb-r${rank % 8})`;

const clock = seconds => {
  const whole = Math.floor(seconds);
  const two = n => String(n).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
};

const bytes = count =>
  count === null ? '' : count >= 1e9 ? `${(count / 1e9).toFixed(1)} GB` : `${Math.round(count / 1e6)} MB`;

/** Interrupt the kernel through the server that serves this page. True when it was accepted. */
async function interruptKernel(kernelId) {
  const config = JSON.parse(document.getElementById('jupyter-config-data')?.textContent || '{}');
  const base = config.baseUrl || document.body.dataset.baseUrl;
  if (!base || !kernelId) {
    return false;
  }
  const headers = {};
  const xsrf = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/);
  if (xsrf) {
    headers['X-XSRFToken'] = decodeURIComponent(xsrf[1]);
  }
  if (config.token) {
    headers.Authorization = `token ${config.token}`;
  }
  try {
    const url = `${base.replace(/\/?$/, '/')}api/kernels/${encodeURIComponent(kernelId)}/interrupt`;
    const response = await fetch(url, { method: 'POST', headers, credentials: 'same-origin' });
    return response.ok;
  } catch {
    return false;
  }
}

/** The header: state, name, elapsed, Stop. */
class Header {
  constructor(stop) {
    this.node = element('div', 'nbdist-head');
    this.pill = element('span', 'nbdist-pill');
    this.pill.setAttribute('role', 'status');
    this.mark = element('span', 'nbdist-mark');
    this.mark.setAttribute('aria-hidden', 'true');
    this.state = element('span');
    this.pill.append(this.mark, this.state);
    this.name = element('span', 'nbdist-name');
    this.ranks = element('span', 'nbdist-quiet nbdist-optional');
    this.elapsed = element('span', 'nbdist-quiet');
    this.button = element('button', 'nbdist-button', WORDS[language()].stop);
    this.button.type = 'button';
    this.button.addEventListener('click', stop);
    this.node.append(this.pill, this.name, this.ranks, element('span', 'nbdist-space'), this.elapsed, this.button);
  }

  draw(view, seconds) {
    const words = WORDS[language()];
    this.pill.dataset.state = this.mark.dataset.state = view.state;
    setText(this.state, words[view.state]);
    setText(this.name, view.label);
    setText(this.ranks, words.ranks(view.ranks.length));
    setText(this.elapsed, `${clock(seconds)} ${words.elapsed}`);
    this.button.hidden = !view.live;
  }
}

/** The strip: one cell per rank. */
class Strip {
  constructor() {
    this.node = element('ul', 'nbdist-strip');
    this.cells = [];
  }

  draw(view) {
    while (this.cells.length < view.ranks.length) {
      this.cells.push(this.makeCell());
    }
    view.ranks.forEach((rank, index) => this.drawCell(this.cells[index], rank));
  }

  makeCell() {
    const cell = { node: element('li', 'nbdist-rank'), badge: element('span', 'nbdist-badge') };
    const row = element('div', 'nbdist-row');
    cell.mark = element('span', 'nbdist-mark');
    cell.mark.setAttribute('aria-hidden', 'true');
    cell.state = element('span');
    cell.device = element('span', 'nbdist-quiet');
    cell.memory = element('span', 'nbdist-quiet');
    row.append(cell.badge, cell.mark, cell.state, cell.device, element('span', 'nbdist-space'), cell.memory);
    cell.last = element('div', 'nbdist-last');
    cell.node.append(row, cell.last);
    this.node.append(cell.node);
    return cell;
  }

  drawCell(cell, rank) {
    const words = WORDS[language()];
    cell.node.style.setProperty('--nb-c', colour(rank.rank));
    cell.mark.dataset.state = rank.state;
    setText(cell.badge, String(rank.rank));
    setText(cell.state, rank.state === 'pending' ? words.waiting : words[rank.state]);
    setText(cell.device, rank.device);
    setText(cell.memory, rank.exit && rank.state !== 'succeeded' ? rank.exit : bytes(rank.gpu_memory ?? rank.memory));
    cell.memory.title = rank.pid ? `pid ${rank.pid}` : '';
    setText(cell.last, rank.last_line.replace(ANSI, ''));
  }
}

/** The toolbar over the log: search, and whether the log follows its end. */
class Toolbar {
  constructor(log) {
    const words = WORDS[language()];
    this.log = log;
    this.node = element('div', 'nbdist-toolbar');
    this.input = element('input', 'nbdist-search');
    this.input.type = 'search';
    this.input.placeholder = words.search;
    this.input.setAttribute('aria-label', words.search);
    this.count = element('span', 'nbdist-quiet');
    this.count.setAttribute('role', 'status');
    this.previous = this.button('‹', words.previous, () => log.jump(-1));
    this.next = this.button('›', words.next, () => log.jump(1));
    this.follow = this.button(words.follow, words.follow, () => log.follow(!log.following));
    this.node.append(this.input, this.previous, this.next, this.count, element('span', 'nbdist-space'), this.follow);
    this.input.addEventListener('input', () => log.search(this.input.value));
    this.input.addEventListener('keydown', event => this.key(event));
    log.node.addEventListener('keydown', event => this.logKey(event));
  }

  button(text, label, act) {
    const button = element('button', 'nbdist-button', text);
    button.type = 'button';
    button.setAttribute('aria-label', label);
    button.title = label;
    button.addEventListener('click', act);
    return button;
  }

  key(event) {
    // the notebook must not take what is typed here for its own commands
    event.stopPropagation();
    if (event.key === 'Enter') {
      this.log.jump(event.shiftKey ? -1 : 1);
      event.preventDefault();
    } else if (event.key === 'Escape') {
      this.input.value = '';
      this.log.search('');
      this.log.node.focus();
    }
  }

  logKey(event) {
    if (event.key === '/') {
      this.input.focus();
    } else if (event.key === 'f' || event.key === 'F') {
      this.log.follow(!this.log.following);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  draw() {
    const { matches, current, following, unseen } = this.log;
    const searching = this.log.query !== '';
    setText(this.count, searching ? `${matches.length ? current + 1 : 0}/${matches.length}` : '');
    this.previous.hidden = this.next.hidden = !searching;
    this.follow.setAttribute('aria-pressed', String(following));
    const words = WORDS[language()];
    setText(this.follow, following || !unseen ? words.follow : `${words.follow} · ${words.newLines(unseen)}`);
  }
}

/** The log: draws the rows that can be seen of one ring, and follows its end until scrolled away. */
class Log {
  constructor(store) {
    this.store = store;
    this.selected = null;
    this.following = true;
    this.unseen = 0;
    this.query = '';
    this.matches = [];
    this.current = 0;
    this.searched = 0;
    this.onDraw = () => {};
    this.node = element('div', 'nbdist-log');
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'log');
    this.node.setAttribute('aria-live', 'off');
    this.node.setAttribute('aria-label', WORDS[language()].log);
    this.lines = element('div', 'nbdist-lines');
    this.node.append(this.lines);
    this.node.addEventListener('scroll', () => {
      const atEnd = this.node.scrollTop + this.node.clientHeight >= this.node.scrollHeight - ROW;
      this.follow(atEnd && !this.held);
    });
  }

  select(rank) {
    this.selected = rank;
    this.follow(true);
    this.search(this.query);
  }

  /** Stay at the end, or stay where the reader is while lines go on coming. */
  follow(following) {
    if (this.following && !following) {
      this.seen = this.total();
    }
    this.following = following;
    this.held = false;
    this.draw();
  }

  /** Lines of the selected log that ever came. */
  total() {
    const ring = this.ring();
    return ring.dropped + ring.items.length;
  }

  ring() {
    return this.selected === null ? this.store.all : this.store.rank(this.selected).ring;
  }

  /** Look for text in all lines that are kept, whatever its case; the latest match becomes current. */
  search(text) {
    this.query = text.toLowerCase();
    this.matches = [];
    this.searched = this.ring().dropped;
    this.findMore();
    this.current = Math.max(0, this.matches.length - 1);
    if (this.matches.length) {
      this.jump(0);
    } else {
      this.draw();
    }
  }

  /** Search the lines that came since the last look. Positions count from the first line ever. */
  findMore() {
    if (!this.query) {
      return;
    }
    const { items, dropped } = this.ring();
    for (let at = Math.max(this.searched, dropped); at < dropped + items.length; at++) {
      if (items[at - dropped].text.toLowerCase().includes(this.query)) {
        this.matches.push(at);
      }
    }
    this.searched = dropped + items.length;
    while (this.matches.length && this.matches[0] < dropped) {
      this.matches.shift();
      this.current = Math.max(0, this.current - 1);
    }
  }

  /** Go to another match and stay there. */
  jump(step) {
    if (!this.matches.length) {
      return;
    }
    this.current = (this.current + step + this.matches.length) % this.matches.length;
    this.seen ??= this.total();
    if (this.following) {
      this.seen = this.total();
    }
    this.following = false;
    this.held = true;
    const top = (this.matches[this.current] - this.ring().dropped) * ROW;
    this.node.scrollTop = Math.max(0, top - this.node.clientHeight / 2);
    this.draw();
  }

  /** The entries of the selected log, and the lines that still grow at its end. */
  entries() {
    if (this.selected !== null) {
      const log = this.store.rank(this.selected);
      return [log.ring.items, log.partial ? [{ rank: this.selected, text: log.partial }] : []];
    }
    const growing = [...this.store.ranks]
      .filter(([, log]) => log.partial)
      .map(([rank, log]) => ({ rank, text: log.partial }));
    return [this.store.all.items, growing];
  }

  draw() {
    this.findMore();
    this.unseen = this.following ? 0 : Math.max(0, this.total() - (this.seen ?? this.total()));
    const [items, growing] = this.entries();
    const count = items.length + growing.length;
    this.lines.style.height = `${count * ROW}px`;
    if (this.following) {
      this.node.scrollTop = this.node.scrollHeight;
    }
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - 4);
    const last = Math.min(count, first + Math.ceil((this.node.clientHeight || 320) / ROW) + 8);
    const rows = document.createDocumentFragment();
    for (let at = first; at < last; at++) {
      rows.append(this.row(at < items.length ? items[at] : growing[at - items.length], at));
    }
    if (!count) {
      rows.append(element('div', 'nbdist-empty', WORDS[language()].empty));
    }
    this.lines.replaceChildren(rows);
    this.onDraw();
  }

  row(entry, at) {
    const row = element('div', 'nbdist-line');
    row.style.top = `${at * ROW}px`;
    row.style.setProperty('--nb-c', colour(entry.rank));
    row.append(element('span', 'nbdist-gutter', String(entry.rank)));
    row.append(this.text(entry, at + this.ring().dropped));
    return row;
  }

  /** The text of a row, with the matches in it marked. */
  text(entry, position) {
    const span = element('span', entry.lost ? 'nbdist-lost' : '');
    const lower = this.query ? entry.text.toLowerCase() : '';
    let from = 0;
    for (let at = this.query ? lower.indexOf(this.query) : -1; at >= 0; at = lower.indexOf(this.query, from)) {
      const now = position === this.matches[this.current];
      span.append(entry.text.slice(from, at));
      span.append(element('mark', now ? 'nbdist-now' : '', entry.text.slice(at, at + this.query.length)));
      from = at + this.query.length;
    }
    span.append(entry.text.slice(from));
    return span;
  }
}

/** The tabs: All, then one per rank. Arrow keys move between them. */
class Tabs {
  constructor(select) {
    this.node = element('div', 'nbdist-tabs');
    this.node.setAttribute('role', 'tablist');
    this.select = select;
    this.tabs = [];
    this.node.addEventListener('keydown', event => this.key(event));
  }

  draw(view) {
    if (!this.tabs.length) {
      this.add(null);
    }
    while (this.tabs.length < view.ranks.length + 1) {
      this.add(this.tabs.length - 1);
    }
  }

  add(rank) {
    const tab = element('button', 'nbdist-tab');
    tab.type = 'button';
    tab.setAttribute('role', 'tab');
    if (rank === null) {
      tab.textContent = WORDS[language()].all;
    } else {
      tab.style.setProperty('--nb-c', colour(rank));
      tab.append(element('span', 'nbdist-dot'), element('span', '', String(rank)));
      tab.setAttribute('aria-label', `${WORDS[language()].rank} ${rank}`);
    }
    tab.addEventListener('click', () => this.choose(tab, rank));
    this.tabs.push(tab);
    this.node.append(tab);
    this.mark(this.current ?? this.tabs[0]);
  }

  choose(tab, rank) {
    this.mark(tab);
    this.select(rank);
  }

  mark(current) {
    this.current = current;
    for (const tab of this.tabs) {
      tab.setAttribute('aria-selected', String(tab === current));
      tab.tabIndex = tab === current ? 0 : -1;
    }
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const at = this.tabs.indexOf(this.current) + step;
      const tab = this.tabs[(at + this.tabs.length) % this.tabs.length];
      tab.focus();
      tab.click();
      event.preventDefault();
      event.stopPropagation();
    }
  }
}

// anywidget hands initialize and every render a model object of their own: the id is what they share
const stores = new Map();

function storeOf(model) {
  const id = model.get('panel_id');
  if (!stores.has(id)) {
    stores.set(id, new Store());
  }
  return stores.get(id);
}

export default {
  initialize({ model }) {
    const store = storeOf(model);
    const receive = (content, buffers) => store.receive(content, buffers);
    model.on('msg:custom', receive);
    return () => {
      model.off('msg:custom', receive);
      stores.delete(model.get('panel_id'));
    };
  },

  render({ model, el }) {
    const store = storeOf(model);
    const root = element('div', 'nbdist');
    root.setAttribute('role', 'region');
    root.setAttribute('aria-label', 'nbdist');
    const note = element('div', 'nbdist-note');
    note.hidden = true;
    const log = new Log(store);
    const toolbar = new Toolbar(log);
    log.onDraw = () => toolbar.draw();
    const tabs = new Tabs(rank => log.select(rank));
    const strip = new Strip();
    const header = new Header(async () => {
      header.button.disabled = true;
      setText(header.button, WORDS[language()].asked);
      model.send({ kind: 'stop' });
      if (model.get('foreground') && !(await interruptKernel(model.get('kernel_id')))) {
        note.hidden = false;
        setText(note, WORDS[language()].cannotStop);
      }
    });
    root.append(header.node, note, strip.node, tabs.node, toolbar.node, log.node);
    el.append(root);

    const seconds = () =>
      store.view.elapsed + (store.view.live ? (performance.now() - store.viewAt) / 1000 : 0);
    const draw = () => {
      if (store.view) {
        header.draw(store.view, seconds());
        strip.draw(store.view);
        tabs.draw(store.view);
      }
      log.draw();
    };
    store.listeners.add(draw);
    draw();
    const ticking = setInterval(() => store.view && header.draw(store.view, seconds()), 1000);
    return () => {
      clearInterval(ticking);
      store.listeners.delete(draw);
    };
  },
};
