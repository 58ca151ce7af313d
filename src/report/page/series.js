// The runs, their visibility, and their numbers as series for the plots.
const given = JSON.parse(document.getElementById("runs").textContent);
const live = Array.isArray(given) ? null : given;  // from a server, which sends changes
const runs = [];
// Look of a run, by path: it persists when the run's numbers are replaced.
const looks = new Map();
const lookOf = (path) => {
  const i = looks.size;
  if (!looks.has(path)) {
    looks.set(path, { color: `var(--c${i % 8})`, dash: ["", "7 3", "2 3", "9 3 2 3"][Math.floor(i / 8) % 4], shown: true });
  }
  return looks.get(path);
};
const setRuns = (list) => {
  for (const run of list) run.look = lookOf(run.path);
  runs.splice(0, runs.length, ...list);
};
setRuns(live === null ? given : live.runs);
const axes = {
  step: { label: "steps", values: (columns) => columns.step, at: (place) => place.step, text: whole },
  tokens: { label: "tokens", values: (columns) => columns.tokens, at: (place) => place.tokens, text: short },
  seconds: {
    label: "seconds of training", values: (columns) => columns.ms.map((ms) => ms / 1000),
    at: (place) => place.ms / 1000, text: (x) => written(x, (s) => digits(s, s < 10 ? 2 : s < 100 ? 1 : 0)),
  },
};
const view = { axis: axes.step, raw: true };
const shownRuns = () => runs.filter((run) => run.look.shown);
const hasNumbers = (run, part, column) => (run[part].columns[column] ?? []).some(isNumber);

// Returns a line for each shown run that has the column.
const seriesOf = (part, column, more = {}) =>
  shownRuns().filter((run) => hasNumbers(run, part, column)).map((run) => ({
    run, name: run.name, color: run.look.color, dash: run.look.dash,
    xs: view.axis.values(run[part].columns), ys: run[part].columns[column], ...more,
  }));

// Returns the index of the number nearest to x in ascending xs.
const nearest = (xs, x) => {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
};

// Events at a step, as marks in the plots.
const markNames = {
  checkpoint: "checkpoint", resume: "resumed", batches: "other batches", late_qat: "QAT begins", swa: "SWA begins", stage: "another stage",
  skipped_step: "step skipped", stopping_early: "stopped by the clock",
};
const marksOf = () => shownRuns().flatMap((run) => run.marks.map((mark) => ({
  kind: mark.event, color: run.look.color, x: view.axis.at(mark),
  title: `${run.name}: ${markNames[mark.event]}, step ${whole(mark.step)}`,
})));
