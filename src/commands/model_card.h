#pragma once
// README.md of an exported model: a model card, as model hubs show it.
#include <cstdint>
#include <string>

#include "checkpoint/model_record.h"
#include "model_io/model_path.h"

namespace tg {

struct ModelFacts {
  ModelRecord record;
  std::int64_t parameters = 0;
  std::int64_t bos_id = -1;     // begins a document; -1: unknown
  bool auto_tokenizer = false;  // transformers' AutoTokenizer reads the exported tokenizer
};

// Returns the card, from the files of the model's run where they are there: the data by the last
// component of DATA_PATH, tokens, settings that differ from the defaults and scores; and how to
// load and evaluate the model. It names no path of this machine, and leaves the licence open.
std::string model_card(const ModelFacts& facts, const ModelPath& model);

}  // namespace tg
