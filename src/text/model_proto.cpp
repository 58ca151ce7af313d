#include "text/model_proto.h"

namespace tg {
namespace {

// Field numbers of sentencepiece_model.proto.
constexpr std::uint64_t piece_field = 1, trainer_field = 2, normalizer_field = 3;
constexpr std::uint64_t piece_type_field = 3, user_defined_type = 4;  // in a piece
constexpr std::uint64_t type_field = 3, suffix_field = 24;            // in the trainer's settings
constexpr std::uint64_t rules_field = 1, map_field = 2, prefix_field = 3, extra_field = 4,
                        escape_field = 5;  // in the normalizer's settings

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
  std::uint64_t value = 0;   // varint field
  std::string_view content;  // string or message field
};

std::optional<Field> take_field(std::string_view& bytes) {
  const auto tag = take_varint(bytes);
  if (!tag) return {};
  constexpr unsigned varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5;
  const auto type = *tag & 7;
  std::optional<std::uint64_t> number;  // the field's value, else the bytes of its content
  if (type == varint || type == delimited) number = take_varint(bytes);
  if (type == fixed64) number = 8;
  if (type == fixed32) number = 4;
  if (!number) return {};
  if (type == varint) return Field{.number = *tag >> 3, .value = *number, .content = {}};
  if (*number > bytes.size()) return {};
  const auto content = bytes.substr(0, *number);
  bytes.remove_prefix(*number);
  return Field{.number = *tag >> 3, .value = 0, .content = content};
}

// Calls `visit` for each field; returns false if the bytes are not a complete message.
bool for_each_field(std::string_view bytes, auto visit) {
  while (!bytes.empty()) {
    const auto field = take_field(bytes);
    if (!field) return false;
    visit(*field);
  }
  return true;
}

bool scan_piece(std::string_view bytes, ModelProto& model) {
  model.user_defined.push_back(false);
  return for_each_field(bytes, [&](const Field& field) {
    if (field.number == piece_type_field)
      model.user_defined.back() = field.value == user_defined_type;
  });
}

bool scan_trainer(std::string_view bytes, ModelProto& model) {
  return for_each_field(bytes, [&](const Field& field) {
    if (field.number == type_field) model.type = static_cast<ModelType>(field.value);
    if (field.number == suffix_field) model.space_as_suffix = field.value != 0;
  });
}

bool scan_normalizer(std::string_view bytes, ModelProto& model) {
  return for_each_field(bytes, [&](const Field& field) {
    if (field.number == rules_field) model.rules = field.content;
    if (field.number == map_field) model.has_rules = !field.content.empty();
    if (field.number == prefix_field) model.adds_space = field.value != 0;
    if (field.number == extra_field) model.removes_spaces = field.value != 0;
    if (field.number == escape_field) model.marks_spaces = field.value != 0;
  });
}

}  // namespace

std::optional<ModelProto> scan_model_proto(std::string_view bytes) {
  ModelProto model;
  bool parts = true;
  const bool whole = for_each_field(bytes, [&](const Field& field) {
    if (field.number == piece_field) {
      parts = parts && scan_piece(field.content, model);
    } else if (field.number == trainer_field) {
      model.has_trainer = true;
      parts = parts && scan_trainer(field.content, model);
    } else if (field.number == normalizer_field) {
      model.has_normalizer = true;
      parts = parts && scan_normalizer(field.content, model);
    }
  });
  if (!whole || !parts) return {};
  return model;
}

}  // namespace tg
