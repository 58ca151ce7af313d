#pragma once
// Used by all writers and readers of artifacts: dicts of tensors, each of which must be used, and
// the fp32 weights made from them.
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "weights/artifact/write_artifact.h"
#include "weights/pickle/pickle_value.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Adds a tensor to a dict of the artifact, on the CPU, and its bytes to `stats`. Throws
// Error(internal) if it is not finite in its stored dtype.
void add_stored(PickleDict& to, std::string name, const at::Tensor& tensor, ArtifactStats& stats);

// Returns the dict at that key. Throws Error(bad_data).
const PickleDict& dict_in(const PickleDict& parent, std::string_view key, const std::string& path);

// Tensors of a dict by name, each of which must be taken. Throws Error(bad_data).
class TensorDict {
 public:
  TensorDict(const PickleDict& dict, const std::string& key, const std::string& path);

  at::Tensor take(const std::string& name);
  at::Tensor take_floating(const std::string& name);
  void expect_all_taken() const;

 private:
  std::string where(const std::string& name) const;

  std::string where_;
  std::unordered_map<std::string, at::Tensor> tensors_;
};

// Collects weights as fp32. Counts elements before converting, since tensors of a file may alias
// each other's bytes. Throws Error(bad_data) for mismatched shapes, dtypes or levels, a duplicate
// name, or too many elements.
class ArtifactWeights {
 public:
  ArtifactWeights(const std::string& path, int64_t max_elements)
      : path_(path), max_elements_(max_elements) {}

  void add(const std::string& name, const at::Tensor& tensor);
  void add(const std::string& name, const QuantizedWeight& weight);
  void add(const std::string& name, const GptqWeight& weight);
  NamedTensors take() && { return std::move(tensors_); }

 private:
  void count(const std::string& name, const at::Tensor& tensor);

  const std::string& path_;
  int64_t max_elements_, elements_ = 0;
  std::unordered_set<std::string> names_;
  NamedTensors tensors_;
};

}  // namespace tg
