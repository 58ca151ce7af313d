#include "data/model_proto.h"

#include <cstdint>

namespace tg {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr std::uint64_t piece_field = 1, trainer_field = 2, normalizer_field = 3;
constexpr std::uint64_t name_field = 1, piece_type_field = 3, model_type_field = 3;
constexpr std::uint64_t unigram_type = 1, bpe_type = 2, user_defined_type = 4;

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

// A message's last field `number`, empty if it has none; nothing: no complete message.
std::optional<Field> find_field(std::string_view message, std::uint64_t number) {
  Field found;
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field) return {};
    if (field->number == number) found = *field;
  }
  return found;
}

}  // namespace

std::optional<ModelProto> scan_model_proto(std::string_view bytes) {
  ModelProto model;
  while (!bytes.empty()) {
    const auto field = take_field(bytes);
    if (!field) return {};
    if (field->number == normalizer_field) {
      model.has_normalizer = true;
      const auto name = find_field(field->content, name_field);
      if (!name) return {};
      model.normalizer = name->content;
    }
    if (field->number == piece_field) {
      const auto type = find_field(field->content, piece_type_field);
      if (!type) return {};
      model.user_defined.push_back(type->value == user_defined_type);
    }
    if (field->number != trainer_field) continue;
    model.has_trainer = true;
    const auto type = find_field(field->content, model_type_field);
    if (!type) return {};
    model.unigram = type->number == 0 || type->value == unigram_type;  // the default
    model.bpe = type->value == bpe_type;
  }
  return model;
}

}  // namespace tg
