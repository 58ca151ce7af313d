// Numbers as text; a missing number is a dash.
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const written = (value, text) => (isNumber(value) ? text(value) : "—");
const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });
const whole = (value) => written(value, (x) => digits(x, 0));
const fixed = (value, places) => written(value, (x) => x.toFixed(places));
const loss = (value) => fixed(value, 4);
const short = (value) => written(value, (x) => {
  if (x === 0) return "0";
  const size = Math.abs(x);
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * (letter === "k" ? 10 : 1)) return digits(x / unit, 2) + letter;
  }
  return size >= 0.001 ? String(Number(x.toPrecision(4))) : x.toExponential(1);
});
const bytes = (value) => written(value, (x) => `${digits(x / 2 ** 20, 1)} MiB`);
const percent = (value) => written(value, (x) => `${digits(100 * x, 1)}%`);
const seconds = (ms) => written(ms, (x) => {
  const s = x / 1000;
  if (s < 120) return `${digits(s, s < 10 ? 2 : 1)} s`;
  const two = (part) => String(Math.floor(part)).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)} min`
                  : `${Math.floor(s / 3600)}:${two((s / 60) % 60)}:${two(s % 60)} h`;
});
const median = (values) => {
  const sorted = values.filter(isNumber).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
};
