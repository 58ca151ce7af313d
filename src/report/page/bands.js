// Stacked plot of a step's phases.
const phases = [
  ["data_wait", "waiting for tokens"], ["forward", "forward"], ["backward", "backward"],
  ["grad_clip", "reduce, clip"], ["optimizer", "optimizer"], ["other", "other"],
];
const bandsOf = (run) => {
  const columns = run.phases.columns, xs = view.axis.values(columns);
  let sums = xs.map(() => 0);
  return phases.map(([column, name], i) => {
    const below = sums;
    sums = sums.map((sum, row) => sum + (columns[column][row] ?? 0));
    return { name, color: `var(--p${i})`, xs, below, above: sums, ms: columns[column] };
  });
};
const bandPath = ({ xs, below, above }, x, y) => {
  const point = (row, ys) => `${x.at(xs[row]).toFixed(1)} ${y.at(ys[row]).toFixed(1)}`;
  const rows = xs.map((_, row) => row);
  return `M${rows.map((row) => point(row, above)).join("L")}L${rows.reverse().map((row) => point(row, below)).join("L")}Z`;
};
const bandsContent = (run) => {
  const bands = bandsOf(run), xs = bands[0].xs, top = bands[bands.length - 1].above;
  return {
    label: `Time of each phase of a step of ${run.name}, stacked, in milliseconds`,
    xs, range: [0, extent(top)[1]],
    paint: (x, y) => bands.map((band) =>
      svg("path", { d: bandPath(band, x, y), fill: band.color }, svg("title", {}, band.name))),
    read: (value) => {
      const row = nearest(xs, value);
      return `${view.axis.label} ${view.axis.text(xs[row])}: ${bands.map((band) => `${band.name} ${short(band.ms[row])}`).join(", ")} ms`;
    },
    table: () => {
      const columns = run.phases.columns;
      return table(["step", ...phases.map(([, name]) => `${name}, ms`), "collectives (included), ms"],
        someRows(columns.step.length).map((row) =>
          [whole(columns.step[row]), ...phases.map(([column]) => fixed(columns[column][row], 2)), fixed(columns.comm[row], 2)]),
        `Phases of ${run.name}: ${columns.step.length} means over ${whole(run.phases.rows)} steps`);
    },
  };
};
const phaseKey = () => element("div", { class: "key" }, phases.map(([, name], i) =>
  element("span", {}, element("i", { style: `background:var(--p${i})` }), name)));
