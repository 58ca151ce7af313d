#pragma once
// What a SentencePiece model file says about itself, read without the library: a protobuf that was
// cut between two fields still parses, and would tokenize differently.
#include <optional>
#include <string_view>

namespace tg {

struct ModelProto {
  bool has_trainer = false;     // field 2, written after the pieces
  bool has_normalizer = false;  // field 3, written last
  bool bpe = false;             // trainer's model_type
};

// Nothing when the bytes are not a whole protobuf message.
std::optional<ModelProto> scan_model_proto(std::string_view bytes);

}  // namespace tg
