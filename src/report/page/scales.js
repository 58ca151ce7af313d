// Scales of axes: positions of numbers, and ticks at round numbers.
const extent = (values) => {
  let least = Infinity, most = -Infinity;
  for (const value of values) {
    if (!isNumber(value)) continue;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return least <= most ? [least, most] : null;
};
const roundTicks = ([from, to], count) => {
  const raw = (to - from) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; ++i) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
};
// Ticks at 1, 2 and 5 times powers of ten; over more than three decades at powers of ten alone.
const logarithmicTicks = ([from, to]) => {
  const factors = to / from > 1000 ? [1] : [1, 2, 5], ticks = [];
  for (let e = Math.floor(Math.log10(from)); 10 ** e <= to; ++e) {
    for (const factor of factors) ticks.push(Number((factor * 10 ** e).toPrecision(6)));
  }
  return ticks.filter((tick) => tick >= from * (1 - 1e-9) && tick <= to * (1 + 1e-9));
};
// Returns {at: value → pixel, ticks}, which maps `domain`, widened if it is empty, to `range` in pixels.
const scale = (domain, range, count, logarithmic) => {
  let [from, to] = domain;
  if (from === to) [from, to] = from === 0 ? [0, 1] : [from - Math.abs(from) / 20, to + Math.abs(to) / 20];
  const bend = logarithmic ? (x) => Math.log10(x) : (x) => x;
  const length = bend(to) - bend(from);
  const at = (value) => range[0] + ((bend(value) - bend(from)) / length) * (range[1] - range[0]);
  const ticks = logarithmic ? logarithmicTicks([from, to]) : [];
  return { at, ticks: ticks.length > 2 ? ticks : roundTicks([from, to], count) };
};
