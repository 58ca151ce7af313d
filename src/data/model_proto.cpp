#include "data/model_proto.h"

#include <cstdint>

namespace tg {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr std::uint64_t trainer_field = 2, normalizer_field = 3, model_type_field = 3;
constexpr std::uint64_t bpe_type = 2;
constexpr std::uint64_t charsmap_field = 2, dummy_prefix_field = 3, extra_whitespaces_field = 4;

std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (bytes.empty()) return {};
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return {};
}

struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;   // of a varint
  std::string_view content;  // of a string or message
};

std::optional<Field> take_field(std::string_view& bytes) {
  const auto tag = take_varint(bytes);
  if (!tag) return {};
  Field field{.number = *tag >> 3, .value = 0, .content = {}};
  std::uint64_t length = 0;
  switch (*tag & 7) {
    case 0: {
      const auto value = take_varint(bytes);
      if (!value) return {};
      field.value = *value;
      return field;
    }
    case 1:
      length = 8;
      break;
    case 5:
      length = 4;
      break;
    case 2: {
      const auto value = take_varint(bytes);
      if (!value) return {};
      length = *value;
      break;
    }
    default:
      return {};
  }
  if (length > bytes.size()) return {};
  field.content = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return field;
}

// Passes each field to `use`. → whether all were complete.
template <class Use>
bool for_each_field(std::string_view bytes, Use use) {
  while (!bytes.empty()) {
    const auto field = take_field(bytes);
    if (!field || !use(*field)) return false;
  }
  return true;
}

bool scan_trainer(std::string_view bytes, ModelProto& model) {
  return for_each_field(bytes, [&](const Field& setting) {
    if (setting.number == model_type_field) model.bpe = setting.value == bpe_type;
    return true;
  });
}

bool scan_normalizer(std::string_view bytes, ModelProto& model) {
  return for_each_field(bytes, [&](const Field& setting) {
    if (setting.number == charsmap_field) model.maps_characters = !setting.content.empty();
    if (setting.number == dummy_prefix_field) model.adds_space = setting.value != 0;
    if (setting.number == extra_whitespaces_field) model.removes_spaces = setting.value != 0;
    return true;
  });
}

}  // namespace

std::optional<ModelProto> scan_model_proto(std::string_view bytes) {
  ModelProto model;
  const bool complete = for_each_field(bytes, [&](const Field& field) {
    if (field.number == trainer_field) {
      model.has_trainer = true;
      return scan_trainer(field.content, model);
    }
    if (field.number == normalizer_field) {
      model.has_normalizer = true;
      return scan_normalizer(field.content, model);
    }
    return true;
  });
  if (!complete) return {};
  return model;
}

}  // namespace tg
