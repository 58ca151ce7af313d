#pragma once
// Scans a SentencePiece model file without the library, which accepts a protobuf that is truncated
// between two fields and then tokenizes differently.
#include <optional>
#include <string_view>

namespace tg {

struct ModelProto {
  bool has_trainer = false;     // field 2, written after the pieces
  bool has_normalizer = false;  // field 3, written last
  bool bpe = false;             // trainer's model_type
  // The normalizer's.
  bool maps_characters = false;  // a rule other than identity
  bool removes_spaces = true;    // remove_extra_whitespaces
  bool adds_space = true;        // add_dummy_prefix
};

// Empty if the bytes are not a complete protobuf message.
std::optional<ModelProto> scan_model_proto(std::string_view bytes);

}  // namespace tg
