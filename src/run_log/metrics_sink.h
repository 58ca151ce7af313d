#pragma once
// Writes events as objects of metrics.jsonl, one per line, numbers in full precision;
// docs/metrics.md lists them. A non-finite number becomes null, so that every line is valid JSON.
#include <concepts>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "files/append_file.h"
#include "run_log/event_schema.h"
#include "run_log/events.h"

namespace tg {

// Returns an event as an object of metrics.jsonl.
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
  // Creates the file. `also` is called with every object written, except RunEnded's. Throws
  // Error(cannot_create).
  explicit MetricsSink(const std::string& path,
                       std::function<void(const nlohmann::json&)> also = {})
      : file_(path), also_(std::move(also)) {}
  // Follows a rename of the file.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

  // Writes the event. Any thread may emit RunEnded; afterwards all events but another RunEnded are
  // dropped.
  template <EventType E>
  void operator()(const E& event) {
    for_each_object(event, [&]<EventType Each>(const Each& each) {
      write(event_json(each), std::same_as<Each, RunEnded>);
    });
  }

 private:
  void write(const nlohmann::json& event, bool is_end) {
    const std::lock_guard lock(mutex_);
    if (ended_ && !is_end) return;
    ended_ |= is_end;
    file_.write(event);
    if (also_ && !is_end) also_(event);
  }

  std::mutex mutex_;
  JsonLines file_;
  bool ended_ = false;
  std::function<void(const nlohmann::json&)> also_;
};

}  // namespace tg
