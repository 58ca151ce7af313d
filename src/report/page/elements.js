// HTML and SVG elements. Text of the runs is inserted as text nodes and attributes only.
const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.flat().filter((child) => child !== null));
  return node;
};
const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

// rows: lists of cells, each a text or an element; a row's first cell is its header.
const table = (head, rows, caption) => {
  const cell = (content, i) => i === 0
    ? element("th", { scope: "row" }, content)
    : element("td", typeof content === "string" && !/^[-−\d—]/.test(content) ? { class: "text" } : {}, content);
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map(cell))))));
};

// A <details> whose content is created when it is opened. Stays open when it is replaced by one with the same key.
const opened = new Set();
const folded = (title, key, make) => {
  const box = element("details", { "data-key": key }, element("summary", {}, title));
  const show = () => { if (box.children.length === 1) box.append(make()); };
  if (opened.has(key)) {
    box.open = true;
    show();
  }
  box.addEventListener("toggle", () => {
    if (box.open) show();
    opened[box.open ? "add" : "delete"](key);
  });
  return box;
};

// Runs `change`, which replaces parts of the page; keeps scroll positions and focus.
const keyOf = (node) => node.closest("details")?.dataset.key ?? node.getAttribute("aria-label");
const keepingPlace = (change) => {
  const scrolled = () => [...document.querySelectorAll(".scroll")];
  const places = new Map(scrolled().map((node) => [keyOf(node), [node.scrollLeft, node.scrollTop]]));
  const focused = document.activeElement, x = scrollX, y = scrollY;
  change();
  for (const node of scrolled()) [node.scrollLeft, node.scrollTop] = places.get(keyOf(node)) ?? [0, 0];
  if (focused !== null && !focused.isConnected) {
    [...document.querySelectorAll(focused.tagName)].find((node) => keyOf(node) === keyOf(focused))?.focus({ preventScroll: true });
  }
  scrollTo(x, y);
};
