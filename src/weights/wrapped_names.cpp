#include "weights/wrapped_names.h"

#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/escaped.h"
#include "base/is_in.h"

namespace tg {
namespace {

constexpr std::string_view kAnywhere[] = {"_orig_mod.", "module."};
constexpr std::string_view kInFront = "model.";

class Unwrapper {
 public:
  std::string operator()(std::string_view name) {
    std::string rest;
    while (!name.empty()) {
      const auto part =
          name.substr(0, name.find('.') == name.npos ? name.npos : name.find('.') + 1);
      name.remove_prefix(part.size());
      const bool wraps = is_in(kAnywhere, part) || (rest.empty() && part == kInFront);
      if (wraps)
        note(part);
      else
        rest += part;
    }
    return rest;
  }
  std::vector<std::string> taken_off() && { return std::move(taken_off_); }

 private:
  void note(std::string_view part) {
    if (!is_in(taken_off_, part)) taken_off_.emplace_back(part);
  }

  std::vector<std::string> taken_off_;
};

}  // namespace

std::vector<std::string> unwrap_names(NamedTensors& tensors, const std::string& path) {
  Unwrapper unwrap;
  std::unordered_map<std::string, std::string> wrapped;  // by unwrapped name
  for (auto& [name, tensor] : tensors) {
    auto bare = unwrap(name);
    const auto [other, is_new] = wrapped.emplace(bare, name);
    REQUIRE(is_new, ExitCode::bad_data,
            "{}: has the weight '{}' twice, as '{}' and as '{}'; save one of them", path,
            escaped(bare), escaped(other->second), escaped(name));
    name = std::move(bare);
  }
  return std::move(unwrap).taken_off();
}

}  // namespace tg
