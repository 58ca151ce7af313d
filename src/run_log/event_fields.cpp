#include "run_log/event_fields.h"

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/json_fields.h"
#include "run_log/events.h"

namespace tg {
namespace {

struct Field {
  std::string name;
  FieldType type;
  bool required;
};

// By event; those that share a name, as warnings do, have the fields of all.
std::map<std::string, std::vector<Field>, std::less<>> fields_of_events() {
  std::map<std::string, std::vector<Field>, std::less<>> events;
  for_each_event([&]<EventType E>(const E& event) {
    auto& fields = events[E::kEvent.name];
    event.visit([&]<class T>(const char* name, const T&, FieldRule rule, const char*) {
      fields.push_back({name, TypeOf<T>::value, rule.required});
    });
  });
  // Earlier versions wrote it here; now it is in `train`.
  events["start"].push_back({"flops_per_token", FieldType::number, false});
  return events;
}

void check(const JsonFields& fields, const Field& field) {
  const auto& name = field.name;
  const auto& value = fields.get(name);
  switch (field.type) {
    case FieldType::count:
      fields.count(name);
      break;
    case FieldType::number:
      fields.require(value.is_number() || value.is_null(), name, "a number or null");
      break;
    case FieldType::text:
      fields.text(name);
      break;
    case FieldType::counts_by_name:
      fields.require(value.is_object(), name, "an object");
      break;
  }
}

}  // namespace

void check_fields(const nlohmann::json& event, const std::string& place) {
  static const auto events = fields_of_events();
  const auto known = events.find(event.at("event").get_ref<const std::string&>());
  if (known == events.end()) return;
  const JsonFields fields(event, place);
  for (const auto& field : known->second) {
    if (field.required || event.contains(field.name)) check(fields, field);
  }
}

}  // namespace tg
