// The container of pergroup.h, in which streams of lrzip are stored as they are. The first byte: c,
// the whole follows; p, the pickle of its archive follows, whose bytes are counted by the next two,
// then the orders of rows; both are packed, and the head is made.
#include "base/error.h"
#include "files/compressed.h"
#include "files/little_endian.h"
#include "files/lrzip.h"
#include "tests/fuzz/artifact_seeds.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/artifact/read_artifact.h"

namespace tg {

// In the place of lrzip's, which starts a program.
std::vector<std::string> decompress_lrzip(const std::vector<LrzipStream>& streams) {
  std::vector<std::string> contents;
  for (const auto& [packed, size, name] : streams) {
    REQUIRE(packed.size() == size, ExitCode::bad_data, "{}: expected {} bytes, found {}", name,
            size, packed.size());
    contents.emplace_back(packed);
  }
  return contents;
}

namespace fuzz {
namespace {

constexpr int kWindow = 16;

// gptq_value() as the container has it.
PickleDict archive_value() {
  const PickleDict whole = gptq_value();
  PickleDict others, shapes, all;
  for (const auto& [name, value] : whole.find("w")->as_dict("w").items)
    if (!name.ends_with(".q") || name == "lm_head.weight.q") others.add(name, value);
  const auto add = [&](const char* key, int64_t rows) {
    shapes.add(key, PickleList{{PickleList{{rows, int64_t{3}}, true}}, false});
  };
  add("_tok_emb.weight.q", 4);
  add("mlp.fc.weight.q", 2);
  add("mlp.proj.weight.q", 2);
  all.add("r", others);
  all.add("m", *whole.find("m"));
  all.add("s", shapes);
  return all;
}

std::string container(const std::string& archive, std::string_view orders) {
  const std::string streams[] = {std::string(12, 1),
                                 "",
                                 "",
                                 "",
                                 "",
                                 std::string(6, 1),
                                 std::string(6, 1),
                                 compress_brotli(archive, kWindow),
                                 orders.empty() ? "" : compress_brotli(orders, kWindow)};
  std::string bytes = "PGRP";
  append_number(bytes, std::uint32_t{9});
  for (const auto& stream : streams)
    append_number(bytes, static_cast<std::uint32_t>(stream.size()));
  for (const auto& stream : streams) bytes += stream;
  return bytes;
}

constexpr std::string_view kOrders("\0\0\3\0\1\0\2\0\1\0\0\0", 12);

}  // namespace

std::vector<std::string> seeds() {
  const std::string pickle = write_pickle(archive_value()).bytes;
  std::string parts = "p";
  append_number(parts, static_cast<std::uint16_t>(pickle.size()));
  return {parts + pickle + std::string(kOrders),
          "c" + container(archive_of(pickle, storages_of(archive_value())), kOrders)};
}

void read(std::string_view bytes) {
  static const auto storages = storages_of(archive_value());
  static ScratchFile file;
  if (bytes.size() < 3) return;
  if (bytes[0] == 'p') {
    const auto size = number_at<std::uint16_t>(bytes, 1);
    const auto rest = bytes.substr(3);
    file.put(container(archive_of(rest.substr(0, size), storages),
                       rest.substr(std::min<size_t>(size, rest.size()))));
  } else {
    file.put(bytes.substr(1));
  }
  for (const auto& [name, tensor] : read_artifact(file.path(), 64)) touch(tensor);
}

}  // namespace fuzz
}  // namespace tg
