#pragma once
// What the readers of artifacts share: dicts of tensors, each of which must be taken, and the fp32
// weights that are made of them.
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ops/quantize/gptq.h"
#include "ops/quantize/quantize.h"
#include "weights/named_tensors.h"
#include "weights/pickle_value.h"

namespace tg {

// The dict of that key. Errors: bad_data.
const PickleDict& dict_in(const PickleDict& parent, std::string_view key, const std::string& path);

// The tensors of a dict by name, of which each is to be taken. Errors: bad_data.
class TensorsOf {
 public:
  TensorsOf(const PickleDict& dict, const std::string& key, const std::string& path);

  bool holds(const std::string& name) const { return tensors_.contains(name); }
  at::Tensor take(const std::string& name);
  at::Tensor take_floating(const std::string& name);
  void expect_all_taken() const;

 private:
  std::string where(const std::string& name) const;

  std::string where_;
  std::unordered_map<std::string, at::Tensor> tensors_;
};

// Counts before it makes fp32 of anything: tensors of a file may share their bytes. Errors:
// bad_data (shapes, dtypes or levels that do not fit each other, a name twice, too many elements).
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
