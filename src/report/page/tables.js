// Tables about all runs: a row for each quantity, a column for each run.
const lastOf = (run, part, column) => (run[part].columns[column] ?? []).findLast(isNumber);
const trained = (run) => ({
  steps: lastOf(run, "train", "step"), tokens: lastOf(run, "train", "tokens"), ms: lastOf(run, "train", "ms"),
});
const usualRate = (run) => median(run.train.columns.tokens_per_s);
const passes = (run) => {
  const all = run.data?.train_tokens;
  return all > 0 && isNumber(trained(run).tokens) ? trained(run).tokens / all : null;
};
// Returns the state of a run, or where and why it stopped.
const stateText = (run) => run.status.text + (run.exit?.text ? `: ${run.exit.text}` : "");
const scoreText = (score) =>
  loss(score.val_loss) + (isNumber(score.val_bpb) ? ` (${loss(score.val_bpb)} bpb)` : "");

const summaryRows = () => {
  const row = (name, text) => [name, ...runs.map(text)];
  const rows = [
    row("state", stateText),
    row("steps", (run) => whole(trained(run).steps)),
    row("tokens", (run) => short(trained(run).tokens)),
    row("passes over the training tokens", (run) => written(passes(run), (x) => digits(x, 3))),
    row("training time", (run) => seconds(run.closing?.train_time_ms ?? trained(run).ms)),
    row("validation time", (run) => seconds(run.closing?.val_time_ms)),
    row("launch to the end of the first step", (run) => seconds(run.first_step?.ms_since_launch)),
    row("training loss, last (mean of 20 steps)", (run) =>
      `${loss(lastOf(run, "train", "loss"))} (${loss(lastOf(run, "train", "smooth_loss"))})`),
    row("validation loss, best", (run) => loss(extent(run.val.columns.val_loss)?.[0])),
    row("bits per byte, best", (run) => loss(extent(run.val.columns.val_bpb)?.[0])),
    row("tokens/s, median", (run) => short(usualRate(run))),
    row("MFU, median", (run) => percent(mfu(run, median(run.train.columns.flops_per_s)))),
    row("memory at the peak, allocated", (run) => bytes(run.memory?.peak_allocated_bytes)),
    row("memory at the peak, reserved", (run) => bytes(run.memory?.peak_reserved_bytes)),
    row("parameters", (run) => whole(run.start.model_params)),
    row("ranks", (run) => whole(run.start.world_size)),
    row("tokens a step", (run) => whole(run.start.tokens_per_step)),
    row("warnings", (run) => whole(run.counts.warning ?? 0)),
  ];
  return rows.filter((cells) => cells.slice(1).some((cell) => cell !== "—"));
};
const summary = () => table(["", ...runs.map((run) => run.name)], summaryRows(), "What was trained, and how fast");

// Table of the final weights' scores, by name.
const finalScores = () => {
  const names = [...new Set(runs.flatMap((run) => run.final.map((score) => score.name)))];
  if (names.length === 0) return null;
  return table(["score", ...runs.map((run) => run.name)], names.map((name) => [name, ...runs.map((run) => {
    const score = run.final.findLast((one) => one.name === name);
    return score ? scoreText(score) : "—";
  })]), "Final scores: loss and bits per byte of the final weights");
};

// Bar of the artifact's and the code's size with the limit.
const sizePicture = (run, artifact) => {
  const { total_bytes: total, limit_bytes: limit } = artifact, code = artifact.code_bytes ?? 0;
  const most = 1.04 * Math.max(total, limit), at = (value) => `${(100 * value) / most}%`;
  const text = `${run.name}, ${artifact.format ?? "artifact"}: ${whole(total)} bytes with code, ${percent(total / limit)} of ${whole(limit)}`;
  return element("div", {}, element("p", total > limit ? { class: "bad" } : {}, text),
    svg("svg", { role: "img", "aria-label": text, width: "100%", height: 22 }, svg("title", {}, text),
      svg("rect", { x: 0, y: 4, width: at(total), height: 14, fill: run.look.color }),
      svg("rect", { x: 0, y: 4, width: at(code), height: 14, fill: "var(--p5)" }, svg("title", {}, "code")),
      svg("line", { class: "limit", x1: at(limit), x2: at(limit), y1: 0, y2: 22 })));
};
const sizes = () => {
  const pairs = runs.flatMap((run) => run.artifact.map((artifact) => [run, artifact]));
  if (pairs.length === 0) return null;
  return element("section", { class: "picture", "aria-label": "Artifact sizes" }, element("h3", {}, "Artifact beside its limit"),
    pairs.map(([run, artifact]) => sizePicture(run, artifact)),
    folded("Table", "artifacts", () => table(["run", "format", "artifact, bytes", "code, bytes", "both", "limit", "left"],
      pairs.map(([run, one]) => [run.name, one.format ?? "—", whole(one.bytes), whole(one.code_bytes),
        whole(one.total_bytes), whole(one.limit_bytes), whole(one.limit_bytes - one.total_bytes)]), "Artifact sizes")));
};
