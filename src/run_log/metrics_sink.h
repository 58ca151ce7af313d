#pragma once
// Events as objects of metrics.jsonl, one a line, numbers in full precision; docs/metrics.md lists
// them. A number that is not finite becomes null, so that every line stays JSON.
#include <concepts>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "files/jsonl.h"
#include "run_log/event_schema.h"
#include "run_log/events.h"

namespace tg {

// An event as an object of metrics.jsonl.
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

class MetricsSink {
 public:
  // Creates the file. `also` gets every object that is written, but of the end. Errors:
  // cannot_create.
  explicit MetricsSink(const std::string& path,
                       std::function<void(const nlohmann::json&)> also = {})
      : file_(path), also_(std::move(also)) {}
  // The file was renamed.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

  // Any thread may say that the run has ended; what other threads write afterwards is dropped, but
  // for another such event.
  template <EventType E>
  void operator()(const E& event) {
    for_each_object(event, [&]<EventType Each>(const Each& each) {
      write(event_json(each), std::same_as<Each, RunEnded>);
    });
  }

 private:
  void write(const nlohmann::json& event, bool is_end);

  std::mutex mutex_;
  JsonLines file_;
  bool ended_ = false;
  std::function<void(const nlohmann::json&)> also_;
};

}  // namespace tg
