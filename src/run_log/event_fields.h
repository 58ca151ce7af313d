#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tg {

// Checks an event's fields by its schema (run_log/events.h; docs/metrics.md lists them): present
// where required, and of their type. A number may be null: it was not finite. Other events and
// fields, of other versions, pass. Errors: bad_data, beginning with `place`.
void check_fields(const nlohmann::json& event, const std::string& place);

}  // namespace tg
