#pragma once
// Gradients that a rank keeps across steps.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/parameters.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Named tensors, each beside the gradient of a parameter.
class StoredGradients {
 public:
  const NamedTensors& state() const { return stored_; }  // sharing storage

 protected:
  // Adds a zero tensor for the row's gradient.
  void add_row(std::string name, const Parameter& row);
  // Calls call(gradient, stored) for every parameter that has a gradient.
  void for_each(auto&& call) const {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      if (const auto& gradient = parameters_[i].grad(); gradient.defined())
        call(gradient, stored_[i].second);
    }
  }

 private:
  NamedTensors stored_;
  std::vector<at::Tensor> parameters_;
};

// Gradient accumulation across steps for rows with Update::every > 1: this rank's gradients since
// their last update, in the gradients' dtype. The step that updates the rows reduces the sums once.
//
// A skipped step adds nothing. A skipped update discards the sums: steps between updates do not
// check these gradients, so a sum may contain a non-finite value, which would skip every later
// update. State: "gradient_sum.NAME", of this rank's gradients alone.
class GradientSums : public StoredGradients {
 public:
  explicit GradientSums(const ParameterRows& rows);

  // Adds the sums to the gradients and clears them; call it before the reduction of a step that
  // updates the rows.
  void take() const;
  // Adds the gradients to the sums, unless `skip` [] fp32 is not 0, and clears them; call it after
  // any other step.
  void add(const at::Tensor& skip) const;
};

// Reference bug, kept with RECORD_QUIRKS: the multi-token heads (UpdateRule::none) are in no
// optimizer, so nothing zeroes their gradients, which accumulate across steps on each rank. Between
// steps a copy is kept here, since the next step's backward passes change the parameter's gradient
// while a checkpoint of the previous step may still be copied. State: named by parameter and rank,
// since gradients differ between ranks.
class KeptGradients : public StoredGradients {
 public:
  KeptGradients(const ParameterTable& table, int rank);

  // Call it before the first backward pass of a step: sets the parameters' gradients to the kept
  // ones, times `scale` [] fp32 if that is defined.
  void begin_step(const at::Tensor& scale) const;
  // Call it after a step, with unscaled gradients: keeps them, unless `skip` [] is not 0.
  void end_step(const at::Tensor& skip) const;
};

}  // namespace tg
