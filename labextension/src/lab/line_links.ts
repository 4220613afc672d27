/** Which line of the cell something in an output is about: links of the panel, and what a summary or an
 * error says in words. */

const NAMED = /\bline (\d+) of the cell\b|\bcell line (\d+)|单元格第 (\d+) 行/i;

export function linkedLine(clicked: Element): number | null {
  const link = clicked.closest<HTMLElement>('[data-cell-line]');
  if (link) {
    return Number(link.dataset['cellLine']);
  }
  const code = clicked.closest('.nbdist-summary :not(.n-other) > .n-at');
  if (code) {
    return numberIn(/^\W*(\d+)/.exec(code.textContent ?? ''));
  }
  const button = clicked.closest('.nbdist .nbdist-cell-link, .nbdist .nbdist-failure button');
  if (button) {
    const said = button.getAttribute('title') ?? button.textContent ?? '';
    return numberIn(NAMED.exec(said));
  }
  const outcome = clicked.closest('.nbdist-summary b, .nbdist-summary .n-headline');
  return outcome ? numberIn(NAMED.exec(outcome.textContent ?? '')) : null;
}

/** Makes links of what names a line of the cell in the text of an error. */
export function linkLines(error: Element, title: (line: number) => string): void {
  const texts = document.createTreeWalker(error, NodeFilter.SHOW_TEXT);
  const found: [Text, RegExpExecArray][] = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const match = NAMED.exec(node.nodeValue ?? '');
    if (match && !node.parentElement?.closest('[data-cell-line]')) {
      found.push([node as Text, match]);
    }
  }
  for (const [node, match] of found) {
    const named = node.splitText(match.index);
    const rest = named.splitText(match[0].length);
    const line = numberIn(match)!;
    const link = document.createElement('button');
    link.type = 'button';
    link.className = 'nbdist-error-link';
    link.dataset['cellLine'] = String(line);
    link.title = title(line);
    named.replaceWith(link);
    link.append(named);
    // a text may name several lines
    if (NAMED.test(rest.nodeValue ?? '')) {
      linkLines(error, title);
    }
  }
}

function numberIn(match: RegExpExecArray | null): number | null {
  const number = match?.slice(1).find(Boolean);
  return number === undefined ? null : Number(number);
}
