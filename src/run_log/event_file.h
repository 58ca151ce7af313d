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
  // Creates a file in the folder, with a name after all existing event files. Throws
  // Error(cannot_create).
  explicit EventFile(const std::string& folder);

  using Scalars = std::vector<std::pair<std::string, double>>;  // tag and value; stored in fp32
  void write_scalars(std::int64_t step, const Scalars& scalars);
  // Writes text, which TensorBoard renders as Markdown.
  void write_text(std::int64_t step, std::string_view tag, std::string_view text);
  // Writes a restart: readers discard what they have of this and later steps.
  void write_restart(std::int64_t step);
  // Follows a rename of the folder.
  void renamed(const std::string& folder) { file_.renamed(folder + "/" + name_); }

 private:
  EventFile(const std::string& folder, std::string name);
  void write(const std::string& event);

  std::string name_;
  AppendFile file_;
};

// Truncates a folder's event files after the last event with a scalar of this tag and step, and
// removes later files. Does nothing if there is no such event. Throws Error(io).
void cut_event_files(const std::string& folder, std::string_view tag, std::int64_t step);

}  // namespace tg
