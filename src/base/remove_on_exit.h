#pragma once
#include <list>
#include <string>

namespace tg {

// Removes a file, such as an incomplete one, at the end of its lifetime. The destructor unlinks the
// file; since a fatal error runs no destructors (program.h), run_program() also unlinks it before
// the process exits.
class RemoveOnExit {
 public:
  explicit RemoveOnExit(std::string path);
  ~RemoveOnExit();
  RemoveOnExit(const RemoveOnExit&) = delete;
  RemoveOnExit& operator=(const RemoveOnExit&) = delete;
  // Leaves the file in place.
  void keep();

 private:
  bool kept_ = false;
  std::list<std::string>::iterator listed_;
};

// Unlinks the files of all live RemoveOnExit objects.
void remove_files_on_exit();

}  // namespace tg
