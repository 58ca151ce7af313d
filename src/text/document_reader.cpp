#include "text/document_reader.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "text/json_object.h"

namespace tg {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

}  // namespace

DocumentReader::DocumentReader(std::vector<std::string> paths, Separator separator,
                               bool replace_invalid, std::string text_key)
    : paths_(std::move(paths)),
      separator_(separator),
      replace_invalid_(replace_invalid),
      text_key_(std::move(text_key)) {}

std::optional<Document> DocumentReader::next() {
  while (true) {
    if (!file_ && !parquet_) {
      if (next_path_ == paths_.size()) return {};
      const auto& path = paths_[next_path_++];
      if (is_parquet_named(path)) {
        parquet_.emplace(path, text_key_);
      } else {
        file_.emplace(path, separator_, text_key_);
      }
    }
    auto document = parquet_ ? next_of_parquet() : next_of_text();
    if (!document) {
      read_before_ = bytes_read_;
      file_.reset();
      parquet_.reset();
    } else if (!is_blank(document->text)) {
      return document;
    }
  }
}

std::optional<Document> DocumentReader::next_of_text() {
  const auto raw = file_->next();
  const auto& file = file_->text().file();
  bytes_read_ = read_before_ + file.bytes_read();
  if (!raw) return {};
  if (is_blank(raw->bytes)) return Document{};
  return Document{.text = file_->is_json() ? text_of_json(*raw) : text_of(*raw),
                  .path = file.path()};
}

std::optional<Document> DocumentReader::next_of_parquet() {
  const auto row = parquet_->next();
  bytes_read_ = read_before_ + parquet_->bytes_read();
  if (!row) return {};
  std::string text(row->bytes);
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid < text.size()) {
    refuse_invalid(fmt::format("{} row {} is not UTF-8 at byte {} of its text (found 0x{:02x})",
                               parquet_->path(), row->row, valid,
                               static_cast<unsigned char>(text[valid])));
    text = as_utf8(std::move(text));
  }
  return Document{.text = std::move(text), .path = parquet_->path()};
}

std::string DocumentReader::text_of(const RawDocument& raw) {
  const bool valid = check_utf8(raw.bytes, raw.at);
  std::string text(raw.bytes);
  return valid ? text : as_utf8(std::move(text));
}

std::string DocumentReader::text_of_json(const RawDocument& raw) {
  const auto written = find_json_string(
      raw.bytes, text_key_,
      {.path = file_->text().file().path(), .position = raw.position, .at = raw.at});
  const bool valid = check_utf8(written, raw.at + (written.data() - raw.bytes.data()));
  auto [text, lone_surrogate] = text_of_json_string(written);
  if (lone_surrogate) check_surrogate(raw, written.substr(*lone_surrogate));
  return valid ? std::move(text) : as_utf8(std::move(text));
}

bool DocumentReader::check_utf8(std::string_view bytes, std::int64_t at) {
  const std::size_t valid = valid_utf8_prefix(bytes);
  if (valid == bytes.size()) return true;
  at += static_cast<std::int64_t>(valid);
  const auto& file = file_->text().file();
  const auto what = fmt::format("{} is not UTF-8 at byte {}{} (found 0x{:02x})", file.path(), at,
                                file.is_compressed() ? " of what it unpacks to" : "",
                                static_cast<unsigned char>(bytes[valid]));
  REQUIRE(replace_invalid_ || file_->text().looks_like_text(at), ExitCode::bad_data,
          "{} and does not look like text; give text in UTF-8 or JSON", what);
  refuse_invalid(what);
  return false;
}

void DocumentReader::refuse_invalid(const std::string& what) {
  REQUIRE(replace_invalid_, ExitCode::bad_data,
          "{}; convert it, or pass --replace-invalid to make_shards", what);
  if (!std::exchange(warned_, true)) log_warn("{}; such bytes become U+FFFD", what);
}

void DocumentReader::check_surrogate(const RawDocument& raw, std::string_view from_surrogate) {
  auto position = raw.position;
  position.advance(
      raw.bytes.substr(0, static_cast<std::size_t>(from_surrogate.data() - raw.bytes.data())));
  const auto what = fmt::format("{} line {} column {} is a lone surrogate, {}",
                                file_->text().file().path(), position.line, position.column,
                                from_surrogate.substr(0, std::string_view("\\ud83d").size()));
  REQUIRE(replace_invalid_, ExitCode::bad_data,
          "{} (expected a pair, such as \\ud83d\\ude00); repair it, or pass --replace-invalid to "
          "make_shards",
          what);
  if (!std::exchange(warned_, true)) log_warn("{}; lone surrogates become U+FFFD", what);
}

bool is_validation_document(std::int64_t index, std::int64_t val_documents, double val_fraction) {
  if (val_documents > 0) return index < val_documents;
  const auto due = [&](std::int64_t documents) {
    return std::floor(val_fraction * static_cast<double>(documents));
  };
  return due(index + 1) > due(index);
}

}  // namespace tg
