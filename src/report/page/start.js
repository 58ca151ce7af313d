// Puts the page together.
const page = document.getElementById("page");
const boxes = allPictures();
const redraw = () => boxes.forEach((box) => box.redraw());

const axisChoice = element("select", { id: "axis" }, Object.entries(axes).map(([name, axis]) => element("option", { value: name }, axis.label)));
axisChoice.addEventListener("change", () => { view.axis = axes[axisChoice.value]; redraw(); });
const rawChoice = element("input", { type: "checkbox", id: "raw", checked: "" });
rawChoice.addEventListener("change", () => { view.raw = rawChoice.checked; redraw(); });

const legendItem = (run, i) => {
  const swatch = svg("svg", { class: "swatch", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: run.color, "stroke-width": 4, "stroke-dasharray": run.dash }));
  if (runs.length === 1) return element("label", {}, swatch, element("span", {}, run.name));
  const shown = element("input", { type: "checkbox", checked: "", id: `run-${i}` });
  shown.addEventListener("change", () => { run.shown = shown.checked; redraw(); });
  return element("label", {}, shown, swatch, element("span", {}, run.name));
};

const section = (title, ...parts) => {
  const found = parts.flat().filter((part) => part !== null);
  if (found.length > 0) page.append(element("h2", {}, title), element("div", { class: "card" }, found));
};

page.append(element("h1", {}, document.title),
  element("p", { class: "quiet" }, `${runs.length} run${runs.length > 1 ? "s" : ""}; in the pictures triangles are checkpoints, dashed lines resumes, dotted lines other events`),
  element("div", { class: "bar" }, element("label", {}, "against", axisChoice), element("label", {}, rawChoice, "every step's loss"),
    element("div", { class: "legend", role: "group", "aria-label": "Runs" }, runs.map(legendItem))));
if (runs.every((run) => run.train.rows === 0)) page.append(element("p", {}, "No training steps in these runs: there are no curves."));
page.append(element("h2", {}, "Curves"), element("div", { class: "pictures" }, boxes));
section("Summary", summary());
if (runs.length > 1) section("Speed to a loss", speeds());
section("Scores and sizes", finalScores(), sizes());
section("Settings", runs.length > 1 ? settingDifferences() : changedSettings(runs[0]), runs.map(settings));
section("Warnings", runs.map(warnings));
section("Checkpoints and events", runs.map(events));
section("Machine and versions", runs.map(machine));

redraw();
addEventListener("resize", redraw);
