#include "run_log/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/elapsed.h"
#include "base/error.h"
#include "files/byte_source.h"
#include "files/crc32.h"
#include "files/folder.h"
#include "files/little_endian.h"

namespace tg {
namespace {

namespace fs = std::filesystem;
using protozero::pbf_writer;

// Field numbers of tensorboard/compat/proto, by message.
using Tag = protozero::pbf_tag_type;
namespace event {
constexpr Tag kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace summary {
constexpr Tag kValue = 1;
}
namespace value {
constexpr Tag kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr Tag kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr Tag kDtype = 1, kShape = 2, kStrings = 8, kDim = 2, kSize = 1;
constexpr std::int32_t kString = 7;
}  // namespace tensor
namespace session_log {
constexpr Tag kStatus = 1;
constexpr std::int32_t kStart = 1;
}  // namespace session_log

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::size_t kHeader = 12, kFooter = 4;
constexpr std::uint64_t kMaxRecord = 16 << 20;

double now() {
  return seconds(std::chrono::system_clock::now().time_since_epoch());
}

std::uint32_t masked_crc(const void* bytes, std::size_t count) {
  return std::rotr(crc32c(bytes, count), 15) + 0xa282ead8u;
}

pbf_writer begin_event(std::string& bytes, std::int64_t step) {
  pbf_writer writer(bytes);
  writer.add_double(event::kWallTime, now());
  writer.add_int64(event::kStep, step);
  return writer;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  std::string text = name.data();
  std::ranges::replace(text, '/', '_');
  return text;
}

// Returns the names of the folder's event files in the order in which they were written.
std::vector<std::string> event_files(const std::string& folder) {
  std::error_code ignored;
  auto names = names_in(folder, ignored);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(kPrefix); });
  return names;
}

// Returns a name after all existing ones: readers order files by name, which begins with a time in
// seconds.
std::string next_name(const std::string& folder) {
  auto first = static_cast<std::int64_t>(now());
  for (const auto& name : event_files(folder)) {
    std::int64_t before = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), before);
    first = std::max(first, before + 1);
  }
  return fmt::format("{}{:010}.{}.{}", kPrefix, first, host_name(), ::getpid());
}

bool has_scalar(std::string_view bytes, std::string_view tag, std::int64_t step) {
  using protozero::pbf_wire_type, protozero::tag_and_type;
  std::int64_t step_of_event = 0;
  bool has_tag = false;
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    const auto field = reader.tag_and_type();
    if (field == tag_and_type(event::kStep, pbf_wire_type::varint)) {
      step_of_event = reader.get_int64();
    } else if (field == tag_and_type(event::kSummary, pbf_wire_type::length_delimited)) {
      auto values = reader.get_message();
      while (values.next(summary::kValue, pbf_wire_type::length_delimited)) {
        auto one = values.get_message();
        if (one.next(value::kTag, pbf_wire_type::length_delimited))
          has_tag |= one.get_string() == tag;
      }
    } else {
      reader.skip();
    }
  }
  return has_tag && step_of_event == step;
}

// Returns the offset after the last event with this tag and step; nothing if there is none before
// the end or the first damage.
std::optional<std::uint64_t> end_of_scalar(const std::string& path, std::string_view tag,
                                           std::int64_t step) {
  const FileSource file(path);
  std::optional<std::uint64_t> end;
  for (std::uint64_t at = 0; file.holds(at, kHeader);) {
    std::uint64_t length = 0;
    file.read(at, &length, sizeof length);
    if (length > kMaxRecord || !file.holds(at + kHeader, length + kFooter)) break;
    const auto bytes = file.read(at + kHeader, length);
    at += kHeader + length + kFooter;
    try {
      if (has_scalar(bytes, tag, step)) end = at;
    } catch (const protozero::exception&) {
      break;
    }
  }
  return end;
}

}  // namespace

EventFile::EventFile(const std::string& folder) : EventFile(folder, next_name(folder)) {}

EventFile::EventFile(const std::string& folder, std::string name)
    : name_(std::move(name)), file_(folder + "/" + name_, "record") {
  std::string bytes;
  pbf_writer writer(bytes);
  writer.add_double(event::kWallTime, now());
  writer.add_string(event::kFileVersion, "brain.Event:2");
  write(bytes);
}

void EventFile::write(const std::string& event) {
  std::string record;
  record.reserve(kHeader + event.size() + kFooter);
  append_number(record, static_cast<std::uint64_t>(event.size()));
  append_number(record, masked_crc(record.data(), record.size()));
  record += event;
  append_number(record, masked_crc(event.data(), event.size()));
  file_.write(record);
}

void EventFile::write_scalars(std::int64_t step, const Scalars& scalars) {
  std::string bytes;
  auto writer = begin_event(bytes, step);
  {
    pbf_writer values(writer, event::kSummary);
    for (const auto& [tag, number] : scalars) {
      pbf_writer one(values, summary::kValue);
      one.add_string(value::kTag, tag);
      one.add_float(value::kSimpleValue, static_cast<float>(number));
    }
  }
  write(bytes);
}

void EventFile::write_text(std::int64_t step, std::string_view tag, std::string_view text) {
  std::string bytes;
  auto writer = begin_event(bytes, step);
  {
    pbf_writer values(writer, event::kSummary);
    pbf_writer one(values, summary::kValue);
    one.add_string(value::kTag, tag.data(), tag.size());
    {
      pbf_writer array(one, value::kTensor);
      array.add_enum(tensor::kDtype, tensor::kString);
      {
        pbf_writer shape(array, tensor::kShape);
        pbf_writer dim(shape, tensor::kDim);
        dim.add_int64(tensor::kSize, 1);
      }
      array.add_bytes(tensor::kStrings, text.data(), text.size());
    }
    pbf_writer about(one, value::kMetadata);
    pbf_writer plugin(about, metadata::kPluginData);
    plugin.add_string(metadata::kPluginName, "text");
  }
  write(bytes);
}

void EventFile::write_restart(std::int64_t step) {
  std::string bytes;
  auto writer = begin_event(bytes, step);
  {
    pbf_writer log(writer, event::kSessionLog);
    log.add_enum(session_log::kStatus, session_log::kStart);
  }
  write(bytes);
}

void cut_event_files(const std::string& folder, std::string_view tag, std::int64_t step) {
  const auto names = event_files(folder);
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const auto path = folder + "/" + *name;
    const auto end = end_of_scalar(path, tag, step);
    if (!end) continue;
    REQUIRE(::truncate(path.c_str(), static_cast<off_t>(*end)) == 0, ExitCode::io,
            "{}: cannot be truncated ({})", path, std::strerror(errno));
    for (auto later = names.rbegin(); later != name; ++later) {
      std::error_code error;
      fs::remove(folder + "/" + *later, error);
      REQUIRE(!error, ExitCode::io, "{}/{}: cannot be removed ({})", folder, *later,
              error.message());
    }
    return;
  }
}

}  // namespace tg
