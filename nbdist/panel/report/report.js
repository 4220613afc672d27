'use strict';
// A report's own script: the theme, what the pointer reads in a chart, and the logs. It asks no network.
(() => {
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const paint = print => {
    root.dataset.jpThemeLight = String(print || (chosen ?? !dark.matches));
  };
  dark.addEventListener('change', () => paint(false));
  addEventListener('beforeprint', () => paint(true));
  addEventListener('afterprint', () => paint(false));
  paint(false);
  document.getElementById('r-theme').addEventListener('click', () => {
    chosen = root.dataset.jpThemeLight !== 'true';
    paint(false);
  });

  // ---- charts ----
  const short = value => (value === null ? '–' : String(Number(value.toPrecision(5))));
  const nearest = (xs, x) => {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle;
      else high = middle;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  };
  for (const figure of document.querySelectorAll('[data-chart]')) {
    const svg = figure.querySelector('svg');
    const read = figure.querySelector('.r-read');
    if (!svg) continue;
    let data = null;
    const [left, right] = svg.dataset.x.split(',').map(Number);
    const cross = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    cross.setAttribute('class', 'r-cross');
    svg.append(cross);
    const leave = () => {
      read.hidden = true;
      cross.setAttribute('d', '');
    };
    svg.addEventListener('pointerleave', leave);
    svg.addEventListener('pointermove', event => {
      data ??= JSON.parse(figure.dataset.chart);
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const x = left + (((event.clientX - box.left) * scale - 52) / (420 - 62)) * (right - left);
      const rows = [];
      let at = null;
      for (const line of data.lines) {
        if (!line.x.length) continue;
        const place = nearest(line.x, x);
        if (at === null || Math.abs(line.x[place] - x) < Math.abs(at - x)) at = line.x[place];
        const band = line.low ? ` (${short(line.low[place])} – ${short(line.high[place])})` : '';
        rows.push([line, `${line.name ? `${line.name}  ` : ''}${short(line.y[place])}${band}`]);
      }
      if (at === null) return leave();
      const where = 52 + ((at - left) / (right - left || 1)) * (420 - 62);
      cross.setAttribute('d', `M${where},8V168`);
      read.replaceChildren(
        `${data.over} ${short(at)}`,
        ...rows.map(([line, text]) => {
          const row = document.createElement('div');
          row.className = `r-s${line.colour}`;
          row.textContent = text;
          return row;
        }),
      );
      read.hidden = false;
      const x0 = where / scale;
      const width = read.offsetWidth;
      read.style.left = `${x0 + width + 12 > box.width ? Math.max(0, x0 - width - 8) : x0 + 8}px`;
      read.style.top = `${svg.offsetTop + 8}px`;
    });
  }

  // ---- logs ----
  const ROW = 18;
  const SGR = /\x1b\[([0-9;:]*)m/g;
  const coloured = line => {
    const out = [];
    let from = 0;
    let look = '';
    const push = text => {
      if (!text) return;
      const span = document.createElement(look ? 'span' : 'i');
      if (!look) return out.push(document.createTextNode(text));
      span.className = look.trim();
      span.textContent = text;
      out.push(span);
    };
    for (const found of line.matchAll(SGR)) {
      push(line.slice(from, found.index));
      from = found.index + found[0].length;
      const codes = found[1].split(/[;:]/).map(Number);
      for (let i = 0; i < codes.length; i++) {
        const code = codes[i];
        if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4;
        else if (code === 0) look = '';
        else if (code === 1) look += ' n-cb';
        else if (code === 39) look = look.replace(/ n-c\d/g, '');
        else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97))
          look = `${look.replace(/ n-c\d/g, '')} n-c${code === 90 ? 7 : (code % 10) % 7}`;
      }
    }
    push(line.slice(from));
    return out;
  };
  const marked = (nodes, wanted) => {
    const out = [];
    for (const node of nodes) {
      const text = node.textContent;
      const small = text.toLowerCase();
      const make = part => {
        const copy = node.cloneNode(false);
        copy.textContent = part;
        return copy;
      };
      let from = 0;
      for (let at = small.indexOf(wanted); at >= 0; at = small.indexOf(wanted, from)) {
        if (at > from) out.push(make(text.slice(from, at)));
        const mark = document.createElement('mark');
        mark.textContent = text.slice(at, at + wanted.length);
        out.push(mark);
        from = at + wanted.length;
      }
      if (from < text.length) out.push(make(text.slice(from)));
    }
    return out;
  };
  const unpack = async element => {
    const bytes = Uint8Array.from(atob(element.textContent.trim()), c => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Response(stream).text();
  };

  class Viewer {
    constructor(section) {
      this.box = section.querySelector('.r-log');
      this.tabs = [...section.querySelectorAll('[role=tab]')];
      this.input = section.querySelector('input');
      this.count = section.querySelector('.r-count');
      this.packed = [...section.querySelectorAll('script[data-log]')];
      this.texts = new Map();
      this.rank = 0;
      this.lines = [];
      this.hits = [];
      this.now = -1;
      this.tabs.forEach((tab, place) => {
        tab.addEventListener('click', () => this.open(place));
        tab.addEventListener('keydown', event => {
          const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (!step) return;
          const next = (place + step + this.tabs.length) % this.tabs.length;
          this.tabs[next].focus();
          this.open(next);
        });
      });
      this.box.addEventListener('scroll', () => this.draw());
      new ResizeObserver(() => this.draw()).observe(this.box);
      let later = 0;
      this.input.addEventListener('input', () => {
        clearTimeout(later);
        later = setTimeout(() => this.search(), 150);
      });
      this.input.addEventListener('keydown', event => {
        if (event.key === 'Enter') this.go(event.shiftKey ? -1 : 1);
      });
      const [before, after, save] = section.querySelectorAll('.r-tools button');
      before.addEventListener('click', () => this.go(-1));
      after.addEventListener('click', () => this.go(1));
      save.addEventListener('click', () => this.save());
    }
    async load(place) {
      if (!this.texts.has(place)) {
        const text = await unpack(this.packed[place]);
        const lines = text.split('\n');
        this.texts.set(place, { lines, plain: null });
      }
      return this.texts.get(place);
    }
    async plain(place) {
      const log = await this.load(place);
      log.plain ??= log.lines.map(line => line.replace(SGR, '').toLowerCase());
      return log.plain;
    }
    async open(place) {
      const log = await this.load(place);
      this.rank = place;
      this.lines = log.lines;
      this.tabs.forEach((tab, other) => {
        tab.setAttribute('aria-selected', String(other === place));
        tab.tabIndex = other === place ? 0 : -1;
      });
      this.box.querySelector('.r-sizer').style.height = `${this.lines.length * ROW}px`;
      this.box.style.height = `${Math.min(440, this.lines.length * ROW + 24)}px`;
      this.box.scrollTop = 0;
      await this.search();
    }
    async search() {
      const wanted = this.input.value.toLowerCase();
      this.hits = [];
      this.now = -1;
      for (const [place, tab] of this.tabs.entries()) {
        let found = 0;
        if (wanted) {
          (await this.plain(place)).forEach((line, number) => {
            if (!line.includes(wanted)) return;
            found += 1;
            if (place === this.rank) this.hits.push(number);
          });
        }
        tab.querySelector('small').textContent = wanted ? ` ${found}` : '';
      }
      if (wanted) this.go(1);
      else {
        this.count.textContent = '';
        this.draw();
      }
    }
    go(step) {
      const all = this.hits.length;
      this.now = all ? (this.now + step + all) % all : -1;
      this.count.textContent = this.input.value ? `${this.now + 1}/${all}` : '';
      if (all) this.box.scrollTop = Math.max(0, this.hits[this.now] * ROW - this.box.clientHeight / 2);
      this.draw();
    }
    draw() {
      const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - 10);
      const last = Math.min(this.lines.length, first + Math.ceil(this.box.clientHeight / ROW) + 20);
      const wanted = this.input.value.toLowerCase();
      const rows = [];
      for (let number = first; number < last; number++) {
        const row = document.createElement('div');
        row.style.top = `${number * ROW}px`;
        if (number === this.hits[this.now]) row.className = 'r-now';
        const nodes = coloured(this.lines[number]);
        row.append(...(wanted ? marked(nodes, wanted) : nodes));
        rows.push(row);
      }
      this.box.replaceChildren(this.box.querySelector('.r-sizer'), ...rows);
    }
    async save() {
      const { lines } = await this.load(this.rank);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([lines.join('\n').replace(SGR, '')], { type: 'text/plain' }));
      link.download = this.tabs[this.rank].dataset.file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }
  }
  if ('DecompressionStream' in window) {
    document.querySelector('.nbdist-report').classList.add('r-live');
    for (const section of document.querySelectorAll('.r-viewer')) {
      const viewer = new Viewer(section);
      viewer.open(0);
    }
  }
})();
