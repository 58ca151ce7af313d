// Events, settings, versions and machine of each run.
const warningText = (warning) => {
  if (warning.text) return warning.text;
  if (warning.kind === "stall") {
    return `steps ${whole(warning.first_step)} to ${whole(warning.step)}: training waited for tokens, ` +
      `${whole(warning.data_wait_ms)} of ${whole(warning.elapsed_ms)} ms`;
  }
  if (warning.kind === "repetition") return `step ${whole(warning.step)}: pass ${whole(warning.pass)} over the training tokens`;
  return warning.kind;
};
const warnings = (run) => {
  const all = run.counts.warning ?? 0;
  if (all === 0) return null;
  const left = all > run.warning.length ? ` (the first and last hundred of ${whole(all)})` : "";
  return element("div", {}, element("p", {}, `${run.name}: ${whole(all)} warning${all > 1 ? "s" : ""}${left}`),
    element("ul", {}, run.warning.map((warning) => element("li", {}, `${warning.kind}: ${warningText(warning)}`))));
};

const markDetails = (mark) => {
  if (mark.event === "checkpoint") {
    return `${mark.path ?? ""}: ${bytes(mark.bytes)}, training held up ${seconds(mark.stall_ms)}, written in ${seconds(mark.write_ms)}`;
  }
  return mark.event === "resume" ? `from ${mark.checkpoint ?? "a checkpoint"}` : "";
};
const events = (run) => {
  if (run.marks.length === 0) return null;
  const marks = [...run.marks].sort((a, b) => a.step - b.step);
  return folded(`${run.name}: ${marks.length} checkpoints, resumes and other events`, `events ${run.path}`, () =>
    table(["event", "step", "tokens", "time", ""], marks.map((mark) =>
      [markNames[mark.event], whole(mark.step), short(mark.tokens), seconds(mark.ms), markDetails(mark)]), `Events of ${run.name}`));
};

const settings = (run) => folded(`${run.name}: all ${Object.keys(run.settings).length} settings, with their origin`, `settings ${run.path}`, () =>
  table(["setting", "value", "from"], Object.keys(run.settings).sort().map((name) =>
    [name, settingText(run.settings[name]), settingText(run.origins[name])]), `Settings of ${run.name}`));
const changedSettings = (run) => {
  const names = Object.keys(run.settings).sort().filter((name) => (run.origins[name] ?? "default") !== "default");
  if (names.length === 0) return element("p", {}, `${run.name}: every setting at its default`);
  return table(["setting", "value", "from"], names.map((name) =>
    [name, settingText(run.settings[name]), settingText(run.origins[name])]), `Settings of ${run.name} that were given`);
};

const machine = (run) => element("div", {}, element("h3", {}, run.name),
  element("p", {}, [run.device, run.start.compute_dtype, run.start.attention_kernel && `attention ${run.start.attention_kernel}`,
    run.start.threads, run.start.dataset && `data ${run.start.dataset}`].filter((text) => text).join("; ")),
  element("p", { class: "quiet" }, run.path), element("pre", {}, run.versions.trim()));
