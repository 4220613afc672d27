/** Nodes of the page, and its clipboard. */
export function element(tag: string, className = '', text?: string): HTMLElement {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  if (text !== undefined) {
    node.textContent = text;
  }
  return node;
}

/** Return a button; it is named by its text. */
export function buttonNode(className: string, text: string, onClick?: () => void): HTMLButtonElement {
  const button = element('button', className, text) as HTMLButtonElement;
  button.type = 'button';
  if (onClick) {
    button.addEventListener('click', onClick);
  }
  return button;
}

/** Return the colour of a rank, or of a compared run. */
export function rankColour(rank: number): string {
  return `var(--nb-r${rank % 8})`;
}

/** Return the message of an error. */
export function messageOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem);
}

/** Copy text; false when the page may not. A page that is not secure (http) has no clipboard to ask. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text);
  }
}

function copySelection(text: string): boolean {
  const field = document.createElement('textarea');
  const focused = document.activeElement;
  field.value = text;
  field.style.cssText = 'position:fixed;opacity:0';
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (focused instanceof HTMLElement) {
    focused.focus({ preventScroll: true });
  }
  return done;
}
