#pragma once
#include <list>
#include <string>

namespace tg {

// A file that is removed with its owner, such as an incomplete one. The destructor unlinks it and,
// since an error runs no destructors (program.h), run_program does so before the process exits.
class RemoveOnExit {
 public:
  explicit RemoveOnExit(std::string path);
  ~RemoveOnExit();
  RemoveOnExit(const RemoveOnExit&) = delete;
  RemoveOnExit& operator=(const RemoveOnExit&) = delete;
  // The file is no longer removed.
  void keep();

 private:
  bool kept_ = false;
  std::list<std::string>::iterator listed_;
};

// Unlinks the files of all living RemoveOnExits.
void remove_files_on_exit();

}  // namespace tg
