// Put into the page before a load starts. Says, by the page's clock (the machine's, in milliseconds),
// when which line was first to be seen (of whichever rank), when the last line of each rank was, and how long
// the page's tasks took. Reads only the last text nodes of the region, so that it costs little. Without a selector it says
// only how long the tasks took: a look at every frame makes the page draw every frame.
selector => {
  const seen = { longest: 0, long: 0, newest: [], last: {} };
  const numbered = /rank (\d+) line (\d+):/g;
  const ended = /rank (\d+) last line/g;
  let newest = -1;

  const lastTexts = region => {
    const walker = document.createTreeWalker(region, NodeFilter.SHOW_TEXT);
    const texts = [];
    let node = walker.lastChild();
    for (let deeper = node; deeper; deeper = walker.lastChild()) node = deeper;
    for (let steps = 0; node && steps < 400; steps++, node = walker.previousNode()) {
      if (node.nodeType === Node.TEXT_NODE) texts.push(node.data.slice(-4000));
    }
    return texts.join('\n');
  };
  const look = () => {
    const now = Date.now();
    for (const region of document.querySelectorAll(selector)) {
      const text = lastTexts(region);
      let best = newest;
      for (const [, , line] of text.matchAll(numbered)) best = Math.max(best, Number(line));
      if (best > newest) seen.newest.push([best, now]);
      newest = best;
      for (const [, rank] of text.matchAll(ended)) seen.last[rank] ??= now;
    }
    if (!seen.stopped) requestAnimationFrame(look);
  };

  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) {
      seen.longest = Math.max(seen.longest, entry.duration);
      seen.long += entry.duration > 100 ? 1 : 0;
    }
  }).observe({ type: 'longtask' });
  if (selector) requestAnimationFrame(look);
  window.benchmark = seen;
}
