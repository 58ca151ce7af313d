// Builds the page. The user's controls persist; show() rebuilds the content of the runs.
const redraw = () => keepingPlace(() => allPictures().forEach((box) => box.redraw()));

const axisChoice = element("select", { id: "axis" }, Object.entries(axes).map(([name, axis]) => element("option", { value: name }, axis.label)));
axisChoice.addEventListener("change", () => { view.axis = axes[axisChoice.value]; redraw(); });
const rawChoice = element("input", { type: "checkbox", id: "raw", checked: "" });
rawChoice.addEventListener("change", () => { view.raw = rawChoice.checked; redraw(); });

const legendItem = (run, i) => {
  const { look } = run, swatch = svg("svg", { class: "swatch", "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: look.color, "stroke-width": 4, "stroke-dasharray": look.dash }));
  if (runs.length === 1) return element("label", {}, swatch, element("span", {}, run.name));
  const shown = element("input", { type: "checkbox", id: `run-${i}` });
  shown.checked = look.shown;
  shown.addEventListener("change", () => { look.shown = shown.checked; redraw(); });
  return element("label", {}, shown, swatch, element("span", {}, run.name));
};

const section = (title, ...parts) => {
  const found = parts.flat().filter((part) => part !== null);
  return found.length > 0 ? [element("h2", {}, title), element("div", { class: "card" }, found)] : [];
};
const facts = () => (runs.length === 0 ? [] : [
  section("Summary", summary()),
  runs.length > 1 ? section("Speed to a loss", speeds()) : [],
  section("Scores and sizes", finalScores(), sizes()),
  section("Settings", runs.length > 1 ? settingDifferences() : changedSettings(runs[0]), runs.map(settings)),
  section("Warnings", runs.map(warnings)),
  section("Checkpoints and events", runs.map(events)),
  section("Machine and versions", runs.map(machine)),
].flat());

const heading = element("h1"), count = element("p", { class: "quiet" }), states = element("p", { id: "states" });
// Shows the states of runs that have not ended.
const showStates = () => {
  const isBad = (run) => ["stopped", "silent"].includes(run.status.kind);
  const unended = runs.filter((run) => run.status.kind !== "ended");
  states.hidden = unended.length === 0;
  states.replaceChildren(...unended.flatMap((run, i) => [i > 0 ? "; " : "",
    element("span", isBad(run) ? { class: "bad" } : {}, `${run.name}: ${run.status.text}`)]));
};
const legend = element("div", { class: "legend", role: "group", "aria-label": "Runs" });
const stepless = element("p", {}, "No training steps in these runs: there are no curves.");
const pictures = element("div", { class: "pictures" }), tables = element("div");
document.getElementById("page").append(heading, count, states,
  element("div", { class: "bar" }, element("label", {}, "against", axisChoice), element("label", {}, rawChoice, "every step's loss"), legend),
  stepless, element("h2", {}, "Curves"), pictures, tables);

// Replaces the children only if `key` changed, so that unchanged ones keep the user's scroll position and focus.
const setChildren = (parent, key, children) => {
  if (parent.dataset.key !== key) parent.replaceChildren(...children());
  parent.dataset.key = key;
};
const show = () => keepingPlace(() => {
  heading.textContent = document.title;
  count.textContent = `${runs.length} run${runs.length === 1 ? "" : "s"}; in the plots triangles are checkpoints, dashed lines resumes, dotted lines other events`;
  showStates();
  stepless.hidden = runs.some((run) => run.train.rows > 0);
  setChildren(legend, JSON.stringify(runs.map((run) => [run.path, run.name])), () => runs.map(legendItem));
  // The key tells whether a run has phases, whose plot then appears.
  setChildren(pictures, JSON.stringify(runs.map((run) => [run.path, run.name, hasNumbers(run, "phases", "forward")])), allPictures);
  allPictures().forEach((box) => box.redraw());
  tables.replaceChildren(...facts());
});

show();
addEventListener("resize", redraw);
