#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/parameters.h"
#include "weights/named_tensors.h"

namespace tg {

// With RECORD_QUIRKS the multi-token heads (UpdateRule::none) are in no optimizer, and so nothing
// zeroes their gradients: on each rank they accumulate from step to step. Between steps they are
// kept here, since the parameter's own gradient changes in the next step's backward passes, while a
// checkpoint of the step before may still be copied.
class KeptGradients {
 public:
  KeptGradients(const ParameterTable& table, int rank);

  // Before the first backward pass of a step: sets the parameters' gradients to the kept ones,
  // times `scale` [] fp32 where that is defined.
  void begin_step(const at::Tensor& scale) const;
  // After a step, gradients no longer scaled: keeps them, unless `skip` [] is not 0.
  void end_step(const at::Tensor& skip) const;

  // By parameter and rank, whose gradients differ; sharing storage.
  NamedTensors state() const;

 private:
  struct Kept {
    std::string name;
    at::Tensor parameter, gradient;
  };
  std::vector<Kept> all_;
};

}  // namespace tg
