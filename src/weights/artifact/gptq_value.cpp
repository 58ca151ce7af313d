#include "weights/artifact/gptq_value.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/escaped.h"
#include "base/progress.h"

namespace tg {
namespace {

constexpr std::string_view kHalf = "passthrough (float16)", kGate = "gate_int8_row";
constexpr std::string_view kGptqBegin = "gptq (int", kGptqEnd = ")";
constexpr std::string_view kSymmetric = "+lqer", kAsymmetric = "+lqer_asym";

struct GptqKind {
  int64_t bits = 0;
  bool corrected = false, asymmetric = false;
};

std::string text_of(const GptqKind& kind) {
  const auto correction = kind.asymmetric ? kAsymmetric : kSymmetric;
  return fmt::format("{}{}{}{}", kGptqBegin, kind.bits, kGptqEnd, kind.corrected ? correction : "");
}

std::optional<GptqKind> gptq_kind(std::string_view text) {
  for (int64_t bits = 2; bits <= 8; ++bits)
    for (const auto& [corrected, asymmetric] :
         {std::pair(false, false), {true, false}, {true, true}})
      if (const GptqKind kind{bits, corrected, asymmetric}; text == text_of(kind)) return kind;
  return {};
}

// Names of a correction's factors and scales.
struct FactorNames {
  std::string a, a_scale, b, b_scale;
};

FactorNames factor_names(const std::string& name, bool asymmetric) {
  const char* const end = asymmetric ? "_a" : "";
  return {name + ".lqA" + end, name + ".lqAs" + end, name + ".lqB" + end, name + ".lqBs" + end};
}

NamedTensors stored_tensors(const GptqTensor& tensor) {
  const auto& [name, stored] = tensor;
  if (const auto* plain = std::get_if<at::Tensor>(&stored))
    return {{name, plain->detach().to(at::kHalf)}};
  if (const auto* gate = std::get_if<QuantizedWeight>(&stored))
    return {{name + ".gq", gate->q}, {name + ".gs", gate->scale}};
  const auto& [weight, bits, correction] = std::get<GptqWeight>(stored);
  NamedTensors tensors{{name + ".q", weight.q}, {name + ".scale", weight.scale}};
  if (correction) {
    const auto& [asymmetric, a, b] = *correction;
    const auto names = factor_names(name, asymmetric);
    tensors.insert(
        tensors.end(),
        {{names.a, a.q}, {names.a_scale, a.scale}, {names.b, b.q}, {names.b_scale, b.scale}});
  }
  return tensors;
}

}  // namespace

std::string kind_of(const GptqTensor& tensor) {
  if (std::holds_alternative<at::Tensor>(tensor.stored)) return std::string(kHalf);
  if (std::holds_alternative<QuantizedWeight>(tensor.stored)) return std::string(kGate);
  const auto& [weight, bits, correction] = std::get<GptqWeight>(tensor.stored);
  return text_of({.bits = bits,
                  .corrected = correction.has_value(),
                  .asymmetric = correction && correction->asymmetric});
}

bool is_gptq_kind(std::string_view kind) {
  return gptq_kind(kind).has_value();
}

PickleDict gptq_value(const std::vector<GptqTensor>& tensors, ArtifactStats& stats) {
  PickleDict stored, kinds, all;
  for (const auto& tensor : tensors) {
    const auto parts = stored_tensors(tensor);  // first the weight's elements
    stats.weight_bytes += static_cast<std::size_t>(parts.front().second.numel()) * sizeof(float);
    for (const auto& [name, part] : parts) add_stored(stored, name, part, stats);
    kinds.add(tensor.name, kind_of(tensor));
    report_progress(0);
  }
  all.add("w", std::move(stored));
  all.add("m", std::move(kinds));
  return all;
}

bool is_gptq_value(const PickleDict& all) {
  const auto* kinds = all.find("m");
  const auto* dict = kinds ? std::get_if<PickleDict>(kinds) : nullptr;
  return dict && std::ranges::any_of(dict->items, [](const auto& item) {
           const auto* text = std::get_if<std::string>(&item.second);
           return text && (*text == kHalf || *text == kGate || text->starts_with(kGptqBegin));
         });
}

bool begins_as_gptq(std::string_view archive) {
  const auto holds = [&](std::string_view text) { return archive.find(text) != archive.npos; };
  return holds(kGptqBegin) || holds(kHalf) || holds(kGate);
}

NamedTensors read_gptq(const PickleDict& all, ArtifactWeights weights, const std::string& path) {
  TensorDict stored(dict_in(all, "w", path), "w", path);
  const auto take = [&](const std::string& q, const std::string& scale) {
    const at::Tensor tensor = stored.take(q);
    return QuantizedWeight{tensor, stored.take(scale)};
  };
  for (const auto& [name, value] : dict_in(all, "m", path).items) {
    const std::string where = fmt::format("{}: 'm' '{}'", path, escaped(name));
    const std::string& text = value.as_string(where);
    if (text == kHalf) {
      weights.add(name, stored.take_floating(name));
      continue;
    }
    if (text == kGate) {
      weights.add(name, take(name + ".gq", name + ".gs"));
      continue;
    }
    const auto kind = gptq_kind(text);
    REQUIRE(kind, ExitCode::bad_data,
            "{}: expected {}, {} or {} with 2 to 8 bits and {} or {} or neither, found {}", where,
            kHalf, kGate, text_of({.bits = 6}), kSymmetric, kAsymmetric, escaped(text));
    GptqWeight weight{take(name + ".q", name + ".scale"), kind->bits, {}};
    if (kind->corrected) {
      const auto names = factor_names(name, kind->asymmetric);
      weight.correction =
          LowRank{kind->asymmetric, take(names.a, names.a_scale), take(names.b, names.b_scale)};
    }
    weights.add(name, weight);
  }
  stored.expect_all_taken();
  return std::move(weights).take();
}

}  // namespace tg
