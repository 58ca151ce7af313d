// A plot: axes, curves, a cursor that reads values, and a table below.
const frameOf = (width, wide) => ({
  width, height: Math.round(Math.max(190, Math.min(wide ? 320 : 260, width * 0.55))),
  left: 54, right: 12, top: 10, bottom: 40,
});

const axesOf = (frame, x, y, xText, yText, xLabel) => {
  const { width, height, left, right, top, bottom } = frame, group = svg("g", { "aria-hidden": "true" });
  for (const tick of y.ticks) {
    const at = y.at(tick);
    group.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, yText(tick)));
  }
  for (const tick of x.ticks) {
    group.append(svg("line", { class: "axis", x1: x.at(tick), x2: x.at(tick), y1: height - bottom, y2: height - bottom + 5 }),
      svg("text", { x: x.at(tick), y: height - bottom + 18, "text-anchor": x.at(tick) > width - 30 ? "end" : "middle" }, xText(tick)));
  }
  group.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
  return group;
};

// Draws events: checkpoints as triangles at the bottom, others as vertical lines.
const drawMarks = (frame, x, marks) => svg("g", {}, marks.map((mark) => {
  const at = x.at(mark.x), bottom = frame.height - frame.bottom, small = mark.kind === "checkpoint";
  return svg("path", {
    d: small ? `M${at} ${bottom}l-4 -8h8z` : `M${at} ${frame.top}V${bottom}`,
    fill: small ? mark.color : "none", stroke: small ? "none" : mark.color, "stroke-width": 1.5,
    "stroke-dasharray": mark.kind === "resume" ? "6 4" : "2 4",
  }, svg("title", {}, mark.title));
}));

// Returns the path of a line, interrupted at missing numbers.
const linePath = (xs, ys, x, y) => {
  let path = "", pen = "M";
  xs.forEach((value, i) => {
    if (!isNumber(ys[i]) || !isNumber(value)) { pen = "M"; return; }
    path += `${pen}${x.at(value).toFixed(1)} ${y.at(ys[i]).toFixed(1)}`;
    pen = "L";
  });
  return path;
};

// Shows values at the pointer or the keyboard's cursor. `cursor` keeps its position: a value and its axis.
const addCursor = (plot, drawing, frame, x, domain, output, read, cursor) => {
  const line = svg("line", { class: "cursor", y1: frame.top, y2: frame.height - frame.bottom });
  drawing.append(line);
  const fractionOf = (value) => (domain[1] > domain[0] ? (value - domain[0]) / (domain[1] - domain[0]) : 0);
  const show = (fraction) => {
    const value = domain[0] + Math.max(0, Math.min(1, fraction)) * (domain[1] - domain[0]), at = x.at(value);
    Object.assign(cursor, { value, axis: view.axis });
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    line.style.visibility = "visible";
    output.textContent = read(value);
  };
  // Pointer position in the drawing's units: CSS may scale the drawing without a resize event.
  const pixel = (event) => {
    const box = drawing.getBoundingClientRect();
    return ((event.clientX - box.left) * frame.width) / box.width;
  };
  plot.onpointermove = (event) =>
    show((pixel(event) - frame.left) / (frame.width - frame.left - frame.right));
  plot.onkeydown = (event) => {
    const fraction = cursor.axis === view.axis ? fractionOf(cursor.value) : 0;
    const to = { ArrowLeft: fraction - 0.01, ArrowRight: fraction + 0.01, Home: 0, End: 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
  };
  if (cursor.axis === view.axis) show(fractionOf(cursor.value));
};

// spec: {title, note, wide, tickText, content()}. content() returns {label, xs, range, log, paint(x, y) → nodes,
// read(value) → text, table() → node}, or null if there is nothing to plot.
const picture = (spec) => {
  const id = `picture-${spec.title.replace(/\W+/g, "-")}`;
  const plot = element("div", { class: "plot", tabindex: 0, role: "group", "aria-label": `${spec.title}: arrow keys read values` });
  const output = element("div", { class: "read", role: "status" });
  const box = element("section", { class: spec.wide ? "picture wide" : "picture", "aria-labelledby": id },
    element("h3", { id }, spec.title), spec.note ? element("p", { class: "quiet" }, spec.note) : null, plot, output);
  const cursor = { value: 0, axis: null };
  let rows = null;
  box.redraw = () => {
    const content = spec.content();
    box.hidden = content === null;
    if (content === null) return;
    const frame = frameOf(Math.max(260, plot.clientWidth || 520), spec.wide);
    const domain = extent(content.xs), y = scale(content.range, [frame.height - frame.bottom, frame.top], 5, content.log);
    const x = scale(domain, [frame.left, frame.width - frame.right], frame.width < 480 ? 4 : 7);
    const drawing = svg("svg", { role: "img", "aria-label": content.label, viewBox: `0 0 ${frame.width} ${frame.height}` },
      svg("title", {}, content.label), axesOf(frame, x, y, view.axis.text, spec.tickText ?? short, view.axis.label),
      content.paint(x, y), drawMarks(frame, x, marksOf().filter((mark) => mark.x >= domain[0] && mark.x <= domain[1])));
    plot.replaceChildren(drawing);
    output.textContent = "";
    addCursor(plot, drawing, frame, x, domain, output, content.read, cursor);
    const next = folded("Table", id, content.table);
    if (rows === null) box.append(next); else rows.replaceWith(next);
    rows = next;
  };
  return box;
};
