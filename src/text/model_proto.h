#pragma once
// Scans a SentencePiece model file without the library, which accepts a protobuf that is truncated
// between two fields and then tokenizes differently, and which does not expose the model's
// settings.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

enum class ModelType : std::uint64_t { unigram = 1, bpe = 2, word = 3, character = 4 };

struct ModelProto {
  bool has_trainer = false;     // field 2, written after the pieces
  bool has_normalizer = false;  // field 3, written last
  // Trainer settings.
  ModelType type = ModelType::unigram;
  bool space_as_suffix = false;  // a piece ends with the space mark instead of beginning with it
  // Normalizer settings.
  std::string rules{};     // name of the character map, such as "nmt_nfkc"
  bool has_rules = false;  // the map is not empty
  bool adds_space = true;  // before a document, or after it with space_as_suffix
  bool removes_spaces = true;
  bool marks_spaces = true;          // as U+2581; otherwise pieces contain spaces
  std::vector<bool> user_defined{};  // for each piece
};

// Returns nullopt if the bytes are not a complete protobuf message.
std::optional<ModelProto> scan_model_proto(std::string_view bytes);

}  // namespace tg
