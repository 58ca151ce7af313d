#include "checkpoint/finished_marker.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "files/folder.h"
#include "files/json_fields.h"
#include "files/json_file.h"

namespace tg {
namespace {

std::string marker_of(const std::string& root) {
  return root + "/finished.json";
}

}  // namespace

void write_finished(const std::string& root, const Finished& finished) {
  create_folders(root);
  write_json_file(marker_of(root), {{"step", finished.step},
                                    {"iterations", finished.iterations},
                                    {"max_wallclock_seconds", finished.max_wallclock_seconds}});
}

std::optional<Finished> read_finished(const std::string& root) {
  const auto path = marker_of(root);
  std::error_code ignored;
  if (std::filesystem::status(path, ignored).type() == std::filesystem::file_type::not_found)
    return std::nullopt;
  const auto value = read_json_file(path);
  const JsonFields fields(value, path);
  return Finished{fields.count("step"), fields.count("iterations"),
                  fields.number("max_wallclock_seconds")};
}

void remove_finished(const std::string& root) {
  std::error_code error;
  std::filesystem::remove(marker_of(root), error);
  REQUIRE(!error, ExitCode::io, "{}: cannot be removed ({})", marker_of(root), error.message());
}

}  // namespace tg
