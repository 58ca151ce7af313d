#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/parameters.h"
#include "weights/named_tensors.h"

namespace tg {

// This rank's gradients of the rows that are updated every few steps (Update::every), added up
// since their last update in the gradients' own dtype. The step that updates the rows reduces them
// once.
//
// A skipped step adds nothing. A skipped update drops the earlier steps' gradients with its own:
// steps between updates look at no gradient that they do not use, so that one that is not finite
// may be in the sum, and would skip every update to come.
class GradientSums {
 public:
  explicit GradientSums(const ParameterRows& rows);

  // Before the reduction of a step that updates the rows: its gradients become the sums.
  void take() const;
  // After that step.
  void drop() const;
  // After any other step, unless `skip` [] is not 0: adds its gradients.
  void add(const at::Tensor& skip) const;

  // "gradient_sum.NAME", sharing storage; this rank's parts of sums over all ranks.
  NamedTensors state() const;

 private:
  struct Sum {
    std::string name;
    at::Tensor parameter, value;
  };
  std::vector<Sum> all_;
};

}  // namespace tg
