#pragma once
// Initial weights, and their random draws in the order in which the reference implementation calls
// its generator.
#include <cstdint>
#include <utility>
#include <vector>

#include "model/plan.h"

namespace tg {

struct Draw {
  enum class As {
    embedding,  // torch.nn.Embedding's constructor
    linear,     // torch.nn.Linear's constructor
    initial,    // the explicit init that overwrites it: the parameter's own Initial
  };
  As as;
  ParameterId parameter;
  std::size_t part = 0;  // of the parameter
  ParameterId weight{};  // of a Linear's bias: the weight, whose number of inputs sets the bound
};

// Appends draws to a list; skips parameters that are none.
class DrawList {
 public:
  void embedding(ParameterId table) { add({Draw::As::embedding, table}); }
  void linear(ParameterId weight) { add({Draw::As::linear, weight}); }
  void linear(const Gate& gate) {
    linear(gate.weight);
    add({.as = Draw::As::linear, .parameter = gate.bias, .weight = gate.weight});
  }
  void linear(const BlockMatrices& matrices, std::int64_t block) {
    add({Draw::As::linear, matrices.bank, matrices.part(block)});
  }
  void initial(ParameterId parameter) { add({Draw::As::initial, parameter}); }
  void initial(const BlockMatrices& matrices, std::int64_t block) {
    add({Draw::As::initial, matrices.bank, matrices.part(block)});
  }

  std::vector<Draw> take() { return std::move(all_); }

 private:
  void add(const Draw& draw) {
    if (draw.parameter) all_.push_back(draw);
  }

  std::vector<Draw> all_;
};

// Initialises every parameter as ParameterPart::initial says, tied rows (Update::tied_to) as the
// rows that they are tied to. Draws from a CPU generator with `seed` in the order of the Python
// script (ModelSpec::draws), so that one seed gives the script's weights (up to the last bits of
// the QR).
void initialize(ParameterTable& table, const std::vector<Draw>& draws, std::int64_t seed);

}  // namespace tg
