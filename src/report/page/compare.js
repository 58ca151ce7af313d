// Comparison of several runs: settings that differ, and time to a loss.
const settingText = (value) => (value === undefined ? "—" : Array.isArray(value) ? value.join(",") : String(value));
const settingNames = () => [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].sort();
const ofOneRun = new Set(["RUN_ID", "OUTPUT_DIR"]);
const differing = () => settingNames().filter((name) => !ofOneRun.has(name) &&
  new Set(runs.map((run) => settingText(run.settings[name]))).size > 1);

const settingDifferences = () => {
  const names = differing();
  if (names.length === 0) return element("p", {}, "All settings are the same (but RUN_ID and OUTPUT_DIR).");
  return table(["setting", ...runs.map((run) => run.name)],
    names.map((name) => [name, ...runs.map((run) => settingText(run.settings[name]))]), "Settings that differ");
};

// Returns the interpolated position where a curve is first at or below a value; null if it never is.
const crossing = (run, part, column, value) => {
  const columns = run[part].columns, ys = columns[column];
  const row = ys.findIndex((y) => isNumber(y) && y <= value);
  if (row < 0) return null;
  const before = row > 0 && isNumber(ys[row - 1]) ? row - 1 : row;
  const fraction = before === row ? 0 : (ys[before] - value) / (ys[before] - ys[row]);
  const at = (name) => columns[name][before] + fraction * (columns[name][row] - columns[name][before]);
  return { step: at("step"), tokens: at("tokens"), ms: at("ms") };
};

// Returns round loss values that at least one run has reached: from the lowest first loss to the best loss.
const losses = (part, column) => {
  const ranges = runs.map((run) => extent(run[part].columns[column] ?? [])).filter((range) => range !== null);
  if (ranges.length < 2) return [];
  const from = Math.min(...ranges.map((range) => range[0])), to = Math.min(...ranges.map((range) => range[1]));
  return from < to ? roundTicks([from, to], 7).reverse() : [];
};

const speedTable = (title, part, column) => {
  const values = losses(part, column);
  if (values.length === 0) return null;
  const rows = values.map((value) => {
    const reached = runs.map((run) => (hasNumbers(run, part, column) ? crossing(run, part, column, value) : null));
    const first = Math.min(...reached.map((place) => place?.ms ?? Infinity));
    return [short(value), ...reached.map((place) => (place === null ? "—"
      : `${seconds(place.ms)}, ${short(place.tokens)} tokens${first > 0 && place.ms > first ? ` (${digits(place.ms / first, 2)}×)` : ""}`))];
  });
  return table([title, ...runs.map((run) => run.name)], rows,
    `${title}: training time and tokens until it was reached; × the time of the fastest`);
};
const speeds = () => [
  speedTable("training loss", "train", "smooth_loss"),
  speedTable("validation loss", "val", "val_loss"),
  speedTable("bits per byte", "val", "val_bpb"),
].filter((one) => one !== null);
