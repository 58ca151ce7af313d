#pragma once
// Gradients that a rank keeps from step to step.
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
