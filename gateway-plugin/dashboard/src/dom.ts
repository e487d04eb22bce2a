// Making elements, without markup in strings: the page runs under a policy that forbids inline styles and scripts.

type Child = Node | string | null | undefined;
type Attributes = Record<string, string | number | boolean | null | undefined>;

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...children.filter((child): child is Node | string => child !== null && child !== undefined));
  return made;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  set(made, attributes);
  made.append(...children.filter((child): child is Node | string => child !== null && child !== undefined));
  return made;
}

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? '' : String(value));
  }
}

/** Writes text only when it changed, so that screen readers and layout stay at rest. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function attr(element: Element, name: string, value: string | null): void {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export interface Fact {
  root: HTMLElement;
  value: HTMLElement;
}

/** A name and its value. */
export function fact(name: string, title?: string): Fact {
  const value = el('dd', {}, '–');
  return { root: el('div', { class: 'fact', title }, el('dt', {}, name), value), value };
}

/** A table of text, made anew only while it is open. */
export class TextTable {
  readonly root: HTMLDetailsElement;
  private body = el('div', { class: 'table-scroll', tabindex: 0 });

  constructor(summary: string, private readonly rows: () => { head: string[]; rows: string[][] }) {
    this.root = el('details', { class: 'as-table' }, el('summary', {}, summary), this.body);
    this.root.addEventListener('toggle', () => this.draw());
  }

  draw(): void {
    if (!this.root.open) return;
    const { head, rows } = this.rows();
    const table = el('table', {},
      el('thead', {}, el('tr', {}, ...head.map((text) => el('th', { scope: 'col' }, text)))),
      el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map((text, at) => (at === 0 ? el('th', { scope: 'row' }, text) : el('td', {}, text)))))));
    this.body.replaceChildren(table);
  }
}
