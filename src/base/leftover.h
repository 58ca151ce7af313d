#pragma once
#include <list>
#include <string>

namespace tg {

// A file that must not outlast its owner, such as one that is not whole yet. The destructor removes
// it and, since an error runs no destructors (program.h), so does the end of the program.
class Leftover {
 public:
  explicit Leftover(std::string path);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;
  // From now on it stays.
  void keep();

 private:
  bool kept_ = false;
  std::list<std::string>::iterator listed_;
};

// Removes the files of all that live.
void remove_leftovers();

}  // namespace tg
