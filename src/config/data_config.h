#pragma once
// Training and validation data.
#include <cstdint>
#include <string>

#include "config/choices.h"
#include "config/limits.h"

namespace tg {

struct DataConfig {
  std::string data_path = "./data/datasets/fineweb10B_sp1024";
  std::string shard_prefix = "fineweb";
  std::string tokenizer_path = "./data/tokenizers/fineweb_1024_bpe.model";
  std::string text_key = "text";
  std::string run_id;
  std::int64_t seed = 1337;
  LoaderOrder loader_order = LoaderOrder::stream;

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("data_path", s.data_path, anything,
      "folder of shards; .txt, .jsonl or .json, each also .gz, .zst or .xz, or a folder of such "
      "text; synthetic:zipf");
    v("shard_prefix", s.shard_prefix, anything,
      "shards of the folder DATA_PATH are PREFIX_{train,val}_*.bin");
    v("tokenizer_path", s.tokenizer_path, anything,
      "SentencePiece model, or GPT-2's vocab.bpe or .tiktoken table; empty: no val_bpb");
    v("text_key", s.text_key, anything, "key of the text in the objects of .jsonl and .json");
    v("run_id", s.run_id, anything, "name of the run; empty: a random UUID, shared by all ranks");
    v("seed", s.seed, at_least(0), "seed of initial weights and of everything drawn later");
    v("loader_order", s.loader_order, anything, "how tokens are dealt to micro-batches and ranks");
  }
};

}  // namespace tg
