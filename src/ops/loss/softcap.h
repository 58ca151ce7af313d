#pragma once

namespace tg {

// The softcap of logits (Gemma 2, 2024), in the form of the speedrun's records:
//   s = cap·tanh((z + shift)/temperature),  ds/dz = gain()·(1 − tanh²)
// A sigmoid is one up to a constant: 2·cap·σ(2(z + shift)/temperature) = cap + s.
struct Softcap {
  double cap, shift, temperature;

  // temperature 0: cap, which leaves small logits unscaled.
  Softcap(double bound, double offset = 0, double divisor = 0)
      : cap(bound), shift(offset), temperature(divisor == 0 ? bound : divisor) {}
  double gain() const { return cap / temperature; }
};

}  // namespace tg
