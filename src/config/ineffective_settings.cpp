#include "config/ineffective_settings.h"

#include <fmt/format.h>

#include "config/types/text.h"

namespace tg {

std::vector<std::string> ineffective_settings(const Settings& settings, const Origins& origins) {
  std::vector<std::string> lines;
  for_each_setting(settings, [&](const auto& setting) {
    const Ineffective& ineffective = setting.role.ineffective;
    if (ineffective.when == nullptr || !ineffective.when(settings)) return;
    const bool given = origins.contains(setting.name) && is_given(origins, setting.name);
    if (!given && !ineffective.default_too) return;
    lines.push_back(fmt::format("{}={} {}", env_name(setting.name), value_text(setting.value),
                                ineffective.text));
  });
  return lines;
}

}  // namespace tg
