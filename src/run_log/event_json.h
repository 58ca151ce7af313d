#pragma once
// An event as an object of metrics.jsonl.
#include <nlohmann/json.hpp>

#include "run_log/event_schema.h"

namespace tg {

template <EventType E>
nlohmann::json event_json(const E& event) {
  nlohmann::json object{{"event", E::kEvent.name}};
  event.visit([&]<class T>(const char* name, const T& value, FieldRule, const char*) {
    if constexpr (requires { value.has_value(); }) {
      if (value) object[name] = *value;
    } else {
      object[name] = value;
    }
  });
  return object;
}

}  // namespace tg
