#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// Checks the fields of an event that the report uses (docs/metrics.md lists all): present where it
// cannot do without, and of their type. A number may be null: it was not finite. Events that it
// does not know pass. Errors: bad_data, beginning with `place`.
void check_fields(const nlohmann::json& event, const std::string& place);

}  // namespace tg
