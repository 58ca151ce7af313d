#pragma once
// Training and validation data.
#include <cstdint>
#include <string>
#include <string_view>

#include "config/mode.h"
#include "config/setting.h"
#include "config/types/values.h"

namespace tg {

// Values of DATA_PATH (data/synthetic_tokens.h).
inline constexpr std::string_view synthetic_zipf = "synthetic:zipf",
                                  synthetic_documents = "synthetic:documents";

struct DataConfig {
  std::string data_path = "./data/datasets/fineweb10B_sp1024";
  std::string shard_prefix = "fineweb";
  std::string tokenizer_path = "./data/tokenizers/fineweb_1024_bpe.model";
  std::string tokenizer_pattern;
  std::string document_start = "auto";
  bool caseops_enabled = false;
  ByteCountSource byte_counts = ByteCountSource::automatic;
  std::string text_key = "text";
  std::string run_id;
  std::int64_t seed = 1337;
  LoaderOrder loader_order = LoaderOrder::stream;
  CountOrAuto bos_id{.automatic = true};
  DocumentAttentionChoice document_attention = DocumentAttentionChoice::automatic;
  CountScheduleOrAuto segment_limit{.automatic = true};

  static void visit(auto& s, const auto& line, const auto& all) {
    line("data_path", s.data_path, anything, role::free.path().common(),
         "folder of shards; .txt, .jsonl or .json, each also .gz, .zst or .xz, or .parquet; a "
         "folder or a pattern (*, ?) of such files; synthetic:zipf or synthetic:documents");
    line("shard_prefix", s.shard_prefix, anything, role::free,
         "shards of the folder DATA_PATH are PREFIX_{train,val}_*.bin");
    line("tokenizer_path", s.tokenizer_path, anything, role::free.path().common(),
         "SentencePiece model, tokenizer.json of a byte-level BPE, GPT-2's vocab.bpe or a "
         ".tiktoken table; empty: no val_bpb");
    line("tokenizer_pattern", s.tokenizer_pattern, anything, role::free,
         "how a .tiktoken table's tokenizer splits text into words, which the table does not say: "
         "gpt2, cl100k (also Llama 3's), qwen2, o200k or a regular expression; empty: GPT-2's for "
         "a table of its size, others are refused");
    line("document_start", s.document_start, anything, role::free,
         "token that the tokenizer puts before each document and prompt: auto (its BOS), none or "
         "the id of a special token");
    line("caseops_enabled", s.caseops_enabled, anything,
         role::fixed.of_recipe(RecipeChoice::last_record)
             .ineffective_if(s.caseops_enabled && s.tokenizer_path.empty(),
                             "has no effect without TOKENIZER_PATH"),
         "CaseOps: capitals become operators before small letters, in shards and wherever the "
         "tokenizer meets text; the tokenizer needs the pieces U+E001 to U+E004");
    line("byte_counts", s.byte_counts, anything, role::free,
         "bytes that val_bpb counts: sidecar, of the text before normalisation, from "
         "PREFIX_val_bytes_*.bin beside the shards; tokenizer, of the normalised text; auto: "
         "sidecar if there are such files");
    line("text_key", s.text_key, anything, role::free,
         "key of the text in the objects of .jsonl and .json, column of the text in .parquet");
    line("run_id", s.run_id, anything, role::free.of_rank().common(),
         "name of the run; empty: a random UUID, shared by all ranks");
    line("seed", s.seed, at_least(0), role::fixed.common(),
         "seed of initial weights and of everything drawn later");
    line(
        "loader_order", s.loader_order, anything, role::fixed,
        "how tokens are distributed to micro-batches and ranks; documents: each micro-batch is one "
        "row; aligned: each row begins with a document and is filled with whole documents");
    line("bos_id", s.bos_id, within(0, most_ids - 1),
         role::fixed_if(mode::reads_documents(all))
             .ineffective_if(mode::reads_no_bos_id(all),
                             "has no effect without LOADER_ORDER=documents or aligned, "
                             "DOCUMENT_ATTENTION=1, SMEAR=gated, PHASED_TTT_ENABLED=1 or "
                             "DATA_PATH=synthetic:documents"),
         "token that begins a document; auto: the tokenizer's BOS, else 50256 where "
         "VOCAB_SIZE is at least 50257, else 1");
    line("document_attention", s.document_attention, anything, role::fixed,
         "attention never crosses the beginning of a document, in training, scores and samples; "
         "auto: 1 with LOADER_ORDER=documents and aligned, else 0");
    line("segment_limit", s.segment_limit, within(0, most_tokens_in_row),
         role::fixed_if(mode::limits_segments(all))
             .ineffective_if(!mode::limits_segments(all),
                             "has no effect without DOCUMENT_ATTENTION=1 or LOADER_ORDER=aligned"),
         "longest segment that DOCUMENT_ATTENTION leaves of a document, and longest piece of one "
         "in a row of LOADER_ORDER=aligned, in tokens; changes as TRAIN_BATCH_TOKENS does; auto: "
         "TRAIN_SEQ_LEN; 0: any");
  }
};

}  // namespace tg
