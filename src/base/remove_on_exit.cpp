#include "base/remove_on_exit.h"

#include <unistd.h>

#include <mutex>
#include <utility>

namespace tg {

namespace {

struct Listed {
  std::mutex mutex;
  std::list<std::string> paths;
};

Listed& listed() {
  static Listed all;
  return all;
}

}  // namespace

RemoveOnExit::RemoveOnExit(std::string path) {
  const std::lock_guard lock(listed().mutex);
  listed_ = listed().paths.insert(listed().paths.end(), std::move(path));
}

RemoveOnExit::~RemoveOnExit() {
  if (kept_) return;
  ::unlink(listed_->c_str());
  keep();
}

void RemoveOnExit::keep() {
  const std::lock_guard lock(listed().mutex);
  listed().paths.erase(listed_);
  kept_ = true;
}

void remove_files_on_exit() {
  const auto paths = [] {
    const std::lock_guard lock(listed().mutex);
    return listed().paths;
  }();
  for (const auto& path : paths) ::unlink(path.c_str());
}

}  // namespace tg
