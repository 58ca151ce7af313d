#pragma once
// TensorBoard's event files: records of a length, its CRC-32C, an Event message and its CRC-32C.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/append_file.h"

namespace tg {

class EventFile {
 public:
  // Creates a file in the folder, whose name follows those that are there. Errors: cannot_create.
  explicit EventFile(const std::string& folder);

  using Scalars = std::vector<std::pair<std::string, double>>;  // by tag; stored in fp32
  void write_scalars(std::int64_t step, const Scalars& scalars);
  // Markdown.
  void write_text(std::int64_t step, std::string_view tag, std::string_view text);
  // What a reader has of this step and later ones is not valid any more.
  void write_restart(std::int64_t step);
  // The folder was renamed.
  void renamed(const std::string& folder);

 private:
  EventFile(const std::string& folder, std::string name);
  void write(const std::string& event);

  std::string name_;
  AppendFile file_;
};

// Cuts the event files of a folder back behind the last event that has a scalar of this tag at this
// step, and removes later files. Nothing happens where there is none. Errors: io.
void cut_event_files(const std::string& folder, std::string_view tag, std::int64_t step);

}  // namespace tg
