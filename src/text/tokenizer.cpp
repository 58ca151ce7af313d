#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/escaped.h"
#include "base/strings.h"
#include "files/file.h"
#include "text/bpe_vocabulary.h"
#include "text/byte_level_bpe.h"
#include "text/caseops.h"
#include "text/pre_tokenizer.h"
#include "text/sentencepiece_model.h"

namespace tg {
namespace {

constexpr std::int64_t max_model_bytes = std::int64_t{1} << 30;

// A pickle of a protocol above 1, in which Python's objects are stored.
bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] > 1 && bytes[1] < 6;
}

constexpr const char* kConvertPickle =
    "python3 -c \"import base64, pickle; e = pickle.load(open('{0}', 'rb')); "
    "open('{0}.tiktoken', 'wb').write(b''.join(base64.b64encode(p) + b' %d\\n' % r for p, r in "
    "sorted(e._mergeable_ranks.items(), key=lambda i: i[1]))); print(e._pat_str)\"";

std::unique_ptr<const TokenizerModel> open_model(const std::string& path,
                                                 const std::string& pattern) {
  const std::string bytes = read_tokenizer_file(path);
  REQUIRE(!is_pickle(bytes), ExitCode::bad_data,
          "tokenizer {} is a pickle, which is a program of Python's and is not run (expected a "
          "table of ranks, tokenizer.json, merges or a SentencePiece model); if it is tiktoken's "
          "Encoding, as nanochat's tokenizer.pkl, convert it where you trust it: {}; then set "
          "TOKENIZER_PATTERN (make_shards --pattern) to the line that this prints",
          path, fmt::format(fmt::runtime(kConvertPickle), path));
  std::unique_ptr<const TokenizerModel> model;
  bool takes_pattern = false;
  if (auto vocabulary = read_bpe_vocabulary(bytes, path, pattern)) {
    takes_pattern = !vocabulary->pattern.empty();
    model = std::make_unique<ByteLevelBpe>(*std::move(vocabulary));
  } else if (is_tokenizer_json(bytes)) {
    model = std::make_unique<ByteLevelBpe>(read_tokenizer_json(bytes, path));
  } else {
    model = std::make_unique<SentencePieceModel>(bytes, path);
  }
  REQUIRE(
      pattern.empty() || takes_pattern, ExitCode::config,
      "TOKENIZER_PATTERN is for a .tiktoken table (expected one, found {}, which states its own "
      "words); leave it empty",
      path);
  return model;
}

}  // namespace

std::string read_tokenizer_file(const std::string& path) {
  std::string bytes = read_whole_file(path, max_model_bytes);
  REQUIRE(!bytes.empty(), ExitCode::bad_data,
          "tokenizer {} is empty (expected a vocabulary, found 0 bytes)", path);
  return bytes;
}

Tokenizer::Tokenizer(const std::string& path, int vocab_size, bool caseops,
                     const TokenizerChoices& choices)
    : path_(path),
      choices_(choices),
      model_(open_model(path, choices.pattern)),
      bos_id_(find_document_start()) {
  const int count = pieces();
  const bool padded = byte_level() && vocab_size > count;
  REQUIRE(
      vocab_size == 0 || vocab_size == count || padded, ExitCode::config,
      "VOCAB_SIZE={} does not match tokenizer vocab_size={}; set VOCAB_SIZE={} or choose another "
      "TOKENIZER_PATH than {}",
      vocab_size, count, count, path);
  if (caseops) find_case_operators();
}

int Tokenizer::find_document_start() const {
  const auto& start = choices_.document_start;
  if (start == "auto") return model_->bos_id();
  if (start == "none") return -1;
  const int id = parse_number<int>(start).value_or(-1);
  REQUIRE(id >= 0, ExitCode::usage,
          "DOCUMENT_START (make_shards --document-start): expected auto, none or a token's id, "
          "found '{}'",
          escaped(start, 40));
  REQUIRE(
      id < pieces() && kind(id) == Kind::control, ExitCode::config,
      "DOCUMENT_START={} is no special piece of tokenizer {} (expected one, which stands for no "
      "text, found {})",
      id, path_, id < pieces() ? fmt::format("'{}'", escaped(piece(id), 40)) : "no piece");
  return id;
}

void Tokenizer::find_case_operators() {
  for (const auto& op : kCaseOperators) {
    const auto code = 0xe001 + case_operators_.size();
    for (int id = 0; id < pieces(); ++id) {
      if (piece(id).find(op) == std::string::npos) continue;
      REQUIRE(piece(id) == op && kind(id) == Kind::normal, ExitCode::config,
              "tokenizer {} is not for CaseOps (expected U+{:X} as a piece of its own, found it in "
              "piece {}); train it with --user_defined_symbols, or leave out CASEOPS_ENABLED=1 or "
              "--caseops",
              path_, code, id);
      case_operators_.push_back(static_cast<TokenId>(id));
    }
    REQUIRE(case_operators_.size() == code - 0xe000, ExitCode::config,
            "tokenizer {} is not for CaseOps (expected U+E001 to U+E004 as pieces, found no "
            "U+{:X}); train it with --user_defined_symbols, or leave out CASEOPS_ENABLED=1 or "
            "--caseops",
            path_, code);
  }
}

bool Tokenizer::is_for_caseops() const {
  return std::ranges::all_of(kCaseOperators, [&](std::string_view op) {
    const auto found = std::ranges::find(model_->pieces(), op);
    return found != model_->pieces().end() &&
           kind(static_cast<int>(found - model_->pieces().begin())) == Kind::normal;
  });
}

void require_caseops_as_made(const Tokenizer& tokenizer) {
  REQUIRE(
      !tokenizer.case_operators().empty() || !tokenizer.is_for_caseops(), ExitCode::config,
      "tokenizer {} is for CaseOps (expected CASEOPS_ENABLED=1, in make_shards --caseops, since "
      "it has U+E001 to U+E004 as pieces; found it off, which counts these operators as text); "
      "turn it on, or choose a tokenizer without these pieces",
      tokenizer.path());
}

void Tokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  if (case_operators_.empty()) return model_->encode(text, ids);
  model_->encode(encode_case(text), ids);
}

void Tokenizer::encode_continued(std::string_view part, std::vector<TokenId>& ids) const {
  if (case_operators_.empty()) return model_->encode_continued(part, ids);
  model_->encode_continued(encode_case(part), ids);
}

void Tokenizer::encode_counted(std::string_view text, bool continued, std::vector<TokenId>& ids,
                               std::vector<std::uint16_t>& bytes) const {
  std::vector<std::string> parts;
  const bool caseops = !case_operators_.empty();
  model_->encode_parts(caseops ? encode_case(text) : text, continued, ids, parts);
  CaseDecoder decoder;
  for (const auto& part : parts) {
    const auto count = caseops ? decoder.add(part).size() : part.size();
    constexpr auto kMax = std::numeric_limits<std::uint16_t>::max();
    REQUIRE(count <= kMax, ExitCode::bad_data,
            "a byte sidecar cannot hold {} bytes of text of one token (expected at most {}); "
            "shorten such white space, or write shards without --byte-sidecar",
            count, kMax);
    bytes.push_back(static_cast<std::uint16_t>(count));
  }
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  auto text = model_->decode(ids);
  return case_operators_.empty() ? text : CaseDecoder().add(text);
}

std::string Tokenizer::decode_continued(std::span<const TokenId> ids) const {
  auto text = model_->decode_continued(ids);
  return case_operators_.empty() ? text : CaseDecoder().add(text);
}

std::string Tokenizer::normalized(std::string_view text) const {
  if (case_operators_.empty()) return model_->normalized(text);
  return CaseDecoder().add(model_->normalized(encode_case(text)));
}

std::vector<std::string_view> Tokenizer::split(std::string_view text, std::size_t size) const {
  std::vector<std::string_view> parts;
  std::size_t at = std::max<std::size_t>(size, 1);
  while (model_->splittable() && at + 1 < text.size()) {
    if (is_space_between_words(text, at)) {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at);
      at = std::max<std::size_t>(size, 1);
    } else {
      ++at;
    }
  }
  parts.push_back(text);
  return parts;
}

}  // namespace tg
