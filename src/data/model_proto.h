#pragma once
// Scans a SentencePiece model file without the library, which accepts a protobuf that is truncated
// between two fields and then tokenizes differently.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

struct ModelProto {
  bool has_trainer = false;     // field 2, written after the pieces
  bool has_normalizer = false;  // field 3, written last
  bool bpe = false;             // trainer's model_type
  bool unigram = true;
  std::string normalizer;          // its name, such as "nmt_nfkc"
  std::vector<bool> user_defined;  // of each piece
};

// Empty if the bytes are not a complete protobuf message.
std::optional<ModelProto> scan_model_proto(std::string_view bytes);

}  // namespace tg
