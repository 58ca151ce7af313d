#include "comm/flight_record.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FlightRecorder.hpp>

namespace tg {

namespace {

constexpr auto kDumpTime = std::chrono::seconds(2);

bool write(const std::string& path, const std::string& bytes) {
  std::error_code ignored;  // then opening the file fails
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file.good();
}

class Writer : public c10d::DebugInfoWriter {
 public:
  Writer(const std::string& path, int rank) : DebugInfoWriter(path, rank), path_(path) {}
  void write(const std::string& record) override { tg::write(path_, record); }
  std::string getWriterTarget() override { return path_; }

 private:
  const std::string path_;
};

}  // namespace

FlightRecord::FlightRecord(const std::string& folder, int rank, Dump dump)
    : path_(fmt::format("{}/rank_{}", folder, rank)), rank_(rank), dump_(std::move(dump)) {}

void FlightRecord::save_for_watchdog() const {
  c10d::DebugInfoWriter::registerWriter(std::make_unique<Writer>(path_, rank_));
}

std::string FlightRecord::save() {
  std::call_once(once_, [this] {
    std::promise<std::string> saved;
    auto path = saved.get_future();
    std::thread([saved = std::move(saved), path = path_, dump = dump_]() mutable {
      try {
        saved.set_value(write(path, dump()) ? path : "");
      } catch (const std::exception&) {
        saved.set_value("");
      }
    }).detach();
    if (path.wait_for(kDumpTime) == std::future_status::ready) saved_ = path.get();
  });
  return saved_;
}

}  // namespace tg
