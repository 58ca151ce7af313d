// The plots of the page.

// Returns at most `most` row indices, evenly spaced from 0 to count - 1, so that a table stays readable.
const someRows = (count, most = 200) =>
  Array.from({ length: Math.min(count, most) }, (_, i) => (count <= most ? i : Math.round((i * (count - 1)) / (most - 1))));

const seriesTable = (title, series, yText) => () => {
  const most = Math.max(20, Math.floor(400 / series.length));
  return table(["run", view.axis.label, title],
    series.flatMap((line) => someRows(line.xs.length, most).map((row) =>
      [line.name, view.axis.text(line.xs[row]), yText(line.ys[row])])),
    `${title}: ${series.map((line) => `${Math.min(line.xs.length, most)} of ${whole(line.rows ?? line.xs.length)}`).join(", ")} points`);
};

// lines() returns [{name, color, dash, xs, ys, thin}]; the cursor and the table leave out thin lines.
const linesPicture = ({ title, note, lines, yText, tickText, zero, log, wide }) => picture({
  title, note, tickText, wide,
  content: () => {
    const all = lines().filter((line) => extent(line.ys) !== null);
    if (all.length === 0) return null;
    const bold = all.filter((line) => !line.thin), listed = bold.length ? bold : all;
    const range = extent(all.flatMap((line) => extent(line.ys)));
    if (zero) range[0] = Math.min(0, range[0]);
    return {
      label: `${title} against ${view.axis.label}: ${listed.map((line) =>
        `${line.name} from ${yText(line.ys.find(isNumber))} to ${yText(line.ys.findLast(isNumber))}`).join("; ")}`,
      xs: all.flatMap((line) => extent(line.xs)), range, log: log && range[0] > 0,
      paint: (x, y) => all.map((line) => svg("path", {
        d: linePath(line.xs, line.ys, x, y), fill: "none", stroke: line.color, "stroke-linejoin": "round",
        "stroke-width": line.thin ? 1 : line.xs.length > 200 ? 1.4 : 2, "stroke-opacity": line.thin ? 0.35 : 1, "stroke-dasharray": line.dash,
      }, svg("title", {}, line.name))).concat(all.filter((line) => line.dots).flatMap((line) => line.xs.map((value, i) =>
        isNumber(line.ys[i]) && line.xs.length <= 100 ? svg("circle", { cx: x.at(value), cy: y.at(line.ys[i]), r: 3, fill: line.color }) : null))
        .filter((node) => node !== null)),
      read: (value) => `${view.axis.label} ${view.axis.text(value)}: ${listed.map((line) =>
        `${listed.length > 1 ? `${line.name} ` : ""}${yText(line.ys[nearest(line.xs, value)])}`).join(", ")}`,
      table: seriesTable(title, listed, yText),
    };
  },
});

const columnPicture = (title, part, column, more) =>
  linesPicture({ title, lines: () => seriesOf(part, column, more), ...more });

const mfu = (run, rate) => (isNumber(rate) && run.start.peak_flops
  ? rate / (run.start.peak_flops * run.start.world_size) : null);
const mfuLines = () =>
  seriesOf("train", "flops_per_s").map((line) => ({ ...line, ys: line.ys.map((rate) => mfu(line.run, rate)) }));

// A plot without content is hidden.
const curves = [
  linesPicture({
    title: "Training loss", wide: true, yText: loss, log: true,
    note: "Bold: exponential mean over 20 steps; thin: every step's loss. Logarithmic.",
    lines: () => [...(view.raw ? seriesOf("train", "loss", { thin: true }) : []), ...seriesOf("train", "smooth_loss")],
  }),
  columnPicture("Validation, bits per byte", "val", "val_bpb", { yText: loss, dots: true, log: true }),
  columnPicture("Validation loss", "val", "val_loss", { yText: loss, dots: true, log: true }),
  columnPicture("Learning-rate scale", "train", "lr_scale", { yText: short, zero: true }),
  columnPicture("Gradient norm", "train", "grad_norm", { yText: short, log: true, note: "Global, before clipping." }),
  columnPicture("Throughput, tokens/s", "train", "tokens_per_s", { yText: short, zero: true }),
  linesPicture({ title: "MFU", lines: mfuLines, yText: percent, tickText: percent, zero: true }),
  columnPicture("Waiting for tokens, ms a step", "train", "data_wait_ms", { yText: short, zero: true }),
];
const phasePictures = new Map();  // by path and title
const phasePicture = ({ path, name }) => {
  const title = runs.length > 1 ? `Phases of a step, ms: ${name}` : "Phases of a step, ms", key = `${path} ${title}`;
  if (!phasePictures.has(key)) {
    const box = picture({
      title,
      content: () => {
        const run = shownRuns().find((one) => one.path === path);
        return run === undefined ? null : bandsContent(run);
      },
    });
    box.children[0].after(phaseKey());
    phasePictures.set(key, box);
  }
  return phasePictures.get(key);
};
const allPictures = () => [...curves, ...runs.filter((run) => hasNumbers(run, "phases", "forward")).map(phasePicture)];
