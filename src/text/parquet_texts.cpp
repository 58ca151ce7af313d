#include "text/parquet_texts.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/strings.h"
#include "files/file.h"
#include "text/raw_documents.h"

namespace tg {
namespace {

namespace fs = std::filesystem;

// Loads the library beside the program, or in the lib/ of an installation; null if it or Arrow is
// missing.
OpenParquetColumn* library() {
  static OpenParquetColumn* const open = []() -> OpenParquetColumn* {
    std::error_code error;
    const auto folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const auto& place : {folder, folder.parent_path() / "lib"}) {
      void* const loaded = dlopen((place / kParquetLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (loaded != nullptr)
        return reinterpret_cast<OpenParquetColumn*>(dlsym(loaded, kOpenParquetColumn));
    }
    return nullptr;
  }();
  return open;
}

// Calls f, and turns what Arrow throws into an error about the file.
auto reading(const std::string& path, auto f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(ExitCode::bad_data, "{}: {}", path, first_line(error.what()));
  }
}

}  // namespace

bool can_read_parquet() {
  return library() != nullptr;
}

ParquetTexts::ParquetTexts(const std::string& path, const std::string& column) : path_(path) {
  if (!can_read_parquet()) {
    RawDocuments(path, Separator::file, column);  // throws for Parquet
    fail(ExitCode::bad_data, "{} is no Parquet (expected by its name)", path);
  }
  const auto file = File::open(path);
  size_ = file.size();
  const int descriptor = dup(file.descriptor());
  REQUIRE(descriptor >= 0, ExitCode::io, "cannot open {} a second time", path);
  column_.reset(reading(path, [&] { return library()(descriptor, column); }));
}

std::optional<ParquetTexts::Text> ParquetTexts::next() {
  while (const auto row = reading(path_, [&] { return column_->next(); })) {
    row_ = row->number;
    if (row->text) return Text{.bytes = *row->text, .row = row_};
    if (!std::exchange(warned_, true))
      log_warn("{} row {} has no text (null); such rows are skipped", path_, row_);
  }
  return {};
}

std::int64_t ParquetTexts::bytes_read() const {
  const auto rows = column_->rows();
  return rows == 0 ? size_ : static_cast<std::int64_t>(static_cast<double>(size_) * row_ / rows);
}

}  // namespace tg
