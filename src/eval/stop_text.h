#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tg {

// Text that arrives in parts, passed on up to where `stop` begins in it, as soon as it is known not
// to be a part of that. With an empty `stop` all of it.
class StopText {
 public:
  using OnText = std::function<void(std::string_view)>;
  StopText(std::string stop, OnText on_text)
      : stop_(std::move(stop)), on_text_(std::move(on_text)) {}

  void add(std::string_view text);
  bool found() const { return found_; }
  // No more text comes: passes on what might have become `stop`.
  void end();

 private:
  void pass_on(std::size_t count);

  std::string stop_;
  OnText on_text_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace tg
