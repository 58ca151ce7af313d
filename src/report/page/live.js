// Polls the server for changes of the runs, at most a tenth of the time, and not while the user selects text.
const follow = () => {
  const token = new URLSearchParams(location.search).get("token");
  const known = new Map(runs.map((run) => [run.path, run]));
  const told = element("p", { class: "quiet", role: "status", id: "live" });
  count.after(told);
  let { version } = live, shown = "", pressed = false;
  addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { pressed = false; });

  const tell = (state) => {
    const parts = [
      state.reading ? "Reading the runs." : runs.length === 0 ? "No run has begun yet." : "Follows the runs.",
      state.left_out > 0 ? `${state.left_out} older runs are left out.` : "",
      ...state.errors.map((error) => error.text),
    ];
    told.textContent = parts.filter((part) => part !== "").join(" ");
    told.className = state.errors.length > 0 ? "bad" : "quiet";
  };
  const take = (state) => {
    ({ version } = state);
    tell(state);
    const now = JSON.stringify([state.paths, state.statuses]);
    if (state.runs.length === 0 && shown === now) return;
    shown = now;
    for (const run of state.runs) known.set(run.path, run);
    for (const path of [...known.keys()]) if (!state.paths.includes(path)) known.delete(path);
    state.paths.forEach((path, i) => { known.get(path).status = state.statuses[i]; });
    setRuns(state.paths.map((path) => known.get(path)));
    const names = runs.map((run) => run.name).join(", ");
    document.title = runs.length === 0 ? "train_gpt" : `train_gpt: ${names.length > 200 ? `${runs.length} runs` : names}`;
    show();
    tell(state);
  };
  // Returns the milliseconds until the next poll; undefined: stop polling.
  const ask = async () => {
    if (document.hidden || pressed || !getSelection().isCollapsed) return 1000;
    const began = performance.now();
    const reply = await fetch(`changes?token=${encodeURIComponent(token)}&since=${version}`);
    if (reply.status === 403) {
      told.textContent = "This address is of a server that has ended: open the one that the new one printed.";
      return undefined;
    }
    const state = await reply.json();
    take(state);
    return state.reading ? 0 : Math.max(1000, 9 * (performance.now() - began));
  };
  const again = async () => {
    let pause = 5000;
    try {
      pause = await ask();
    } catch {
      told.textContent = "The server does not answer; what is here stays.";
    }
    if (pause !== undefined) setTimeout(again, pause);
  };
  tell(live);
  setTimeout(again, live.reading ? 0 : 1000);
};
if (live !== null) follow();
