#pragma once
#include <list>
#include <string>

namespace tg {

// A file that is removed with its owner, such as an incomplete one. The destructor unlinks it and,
// since an error runs no destructors (program.h), run_program does so before the process exits.
class Leftover {
 public:
  explicit Leftover(std::string path);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  // The file is no longer removed.
  void keep();

 private:
  bool kept_ = false;
  std::list<std::string>::iterator listed_;
};

// Unlinks the files of all living Leftovers.
void remove_leftovers();

}  // namespace tg
