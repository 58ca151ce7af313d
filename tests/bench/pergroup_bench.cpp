// usage: pergroup_bench [--layers N] [--vocab N]
//
// Packs and unpacks a per-group artifact with the last record's shapes (11 layers of 512 channels,
// a table of 8,192 rows) and normally distributed weights, rounded with GPTQ's scales. Prints a
// table: each stream's bytes and time by itself, then all streams together, the ordering of rows,
// and the whole file.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cxxopts.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/elapsed.h"
#include "base/program.h"
#include "files/lrzip.h"
#include "weights/artifact/pergroup.h"
#include "weights/artifact/read_artifact.h"
#include "weights/artifact/write_artifact.h"

namespace tg {
namespace {

constexpr int64_t kDim = 512, kKvDim = 256, kHidden = 2048;

// A group of matrices: shape, bits, and the standard deviation of a row in quantization levels,
// levels/sigmas.
struct Shape {
  int64_t rows, columns, bits;
  double sigmas;
};

const std::vector<Shape> kShapes = {
    {0, kDim, 7, 14},    {kKvDim, kDim, 6, 13},    {kDim, kDim, 6, 13},     {kKvDim, kDim, 6, 13},
    {kDim, kDim, 6, 13}, {kHidden, kDim, 6, 11.5}, {kDim, kHidden, 6, 11.5}};

GptqWeight drawn(const Shape& shape) {
  const double levels = static_cast<double>((1 << (shape.bits - 1)) - 1);
  const auto q = at::randn({shape.rows, shape.columns}).mul_(levels / shape.sigmas);
  return {{q.round_().clamp_(-levels, levels).to(at::kChar), at::ones({shape.rows}, at::kHalf)},
          shape.bits,
          {}};
}

std::vector<GptqTensor> model(int64_t layers, int64_t vocab) {
  std::vector<GptqTensor> tensors;
  for (std::size_t g = 0; g < kMatrixGroups.size(); ++g) {
    const std::string name(kMatrixGroups[g].name);
    Shape shape = kShapes[g];
    if (g == 0) {
      shape.rows = vocab;
      tensors.push_back({name, drawn(shape)});
      continue;
    }
    for (int64_t layer = 0; layer < layers; ++layer)
      tensors.push_back({fmt::format("blocks.{}.{}", layer, name), drawn(shape)});
  }
  return tensors;
}

struct Columns {
  std::vector<std::string> streams = std::vector<std::string>(kMatrixGroups.size());
  double order_s = 0, longest_order_s = 0;
};

Columns columns_of(const std::vector<GptqTensor>& tensors) {
  Columns columns;
  for (const auto& [name, stored] : tensors) {
    const auto group = group_place(name)->group;
    auto q = std::get<GptqWeight>(stored).weight.q;
    if (kMatrixGroups[group].ordered) {
      Lap lap;
      const auto order =
          greedy_row_order({q.const_data_ptr<int8_t>(), static_cast<size_t>(q.numel())},
                           static_cast<size_t>(q.size(0)));
      const double s = seconds(lap());
      columns.order_s += s;
      columns.longest_order_s = std::max(columns.longest_order_s, s);
      const std::vector<int64_t> rows(order.begin(), order.end());
      q = q.index_select(0, at::tensor(rows, at::kLong));
    }
    const auto by_column = q.t().contiguous();
    columns.streams[group].append(static_cast<const char*>(by_column.const_data_ptr()),
                                  static_cast<size_t>(by_column.numel()));
  }
  return columns;
}

void time_streams(const std::vector<std::string>& contents) {
  double longest_pack = 0, longest_unpack = 0;
  size_t bytes = 0, packed_bytes = 0;
  fmt::print("| stream | bytes | packed | pack, s | unpack, s |\n|---|---|---|---|---|\n");
  for (size_t g = 0; g < contents.size(); ++g) {
    Lap lap;
    const auto packed = compress_lrzip({contents[g]});
    const double pack = seconds(lap());
    decompress_lrzip({{packed[0], contents[g].size(), "bench"}});
    const double unpack = seconds(lap());
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} |\n", kMatrixGroups[g].name, contents[g].size(),
               packed[0].size(), pack, unpack);
    longest_pack = std::max(longest_pack, pack);
    longest_unpack = std::max(longest_unpack, unpack);
    bytes += contents[g].size();
    packed_bytes += packed[0].size();
  }
  Lap lap;
  const auto packed = compress_lrzip(contents);
  const double pack = seconds(lap());
  std::vector<LrzipStream> streams;
  for (size_t g = 0; g < contents.size(); ++g)
    streams.push_back({packed[g], contents[g].size(), "bench"});
  lap();
  decompress_lrzip(streams);
  fmt::print("| all at once | {} | {} | {:.2f} | {:.2f} |\n", bytes, packed_bytes, pack,
             seconds(lap()));
  fmt::print("| the slowest alone | | | {:.2f} | {:.2f} |\n", longest_pack, longest_unpack);
}

void time_file(const std::vector<GptqTensor>& tensors) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("pergroup_bench_{}.ptz", ::getpid());
  const auto stats = write_artifact_gptq(tensors, Compressor::pergroup, path);
  Lap lap;
  read_artifact(path, int64_t{1} << 32);
  fmt::print("whole file: {} bytes, packed in {:.2f} s, read in {:.2f} s\n", stats.file_bytes,
             stats.compress_ms / 1000, seconds(lap()));
  std::filesystem::remove(path);
}

void bench(int argc, const char* const* argv) {
  cxxopts::Options options("pergroup_bench");
  options.add_options()("layers", "", cxxopts::value<int64_t>()->default_value("11"))(
      "vocab", "", cxxopts::value<int64_t>()->default_value("8192"));
  const auto parsed = options.parse(argc, argv);
  at::manual_seed(1);
  const auto tensors = model(parsed["layers"].as<int64_t>(), parsed["vocab"].as<int64_t>());
  fmt::print("{} cores\n", available_cores());
  const auto columns = columns_of(tensors);
  fmt::print("rows ordered in {:.2f} s, the table's in {:.2f} s\n", columns.order_s,
             columns.longest_order_s);
  time_streams(columns.streams);
  time_file(tensors);
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::bench(argc, argv); });
}
