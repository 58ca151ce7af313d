// The container per group of an artifact of GPTQ: nine streams, the orders of rows among them.
#include "weights/artifact/pergroup.h"

#include "files/compressed.h"
#include "files/little_endian.h"
#include "tests/weights/gptq_artifact.h"
#include "tests/weights/tensor_testing.h"
#include "weights/pickle/torch_file.h"

namespace tg::test {
namespace {

TEST(Pergroup, AModelWithoutMatricesOfGroupsStartsNoProgram) {
  const TempDir folder;
  const auto stats =
      write_artifact_gptq({{"a", at::ones({3}, at::kHalf)}}, Compressor::pergroup, folder / "f");
  const std::string bytes = read_file(folder / "f");
  EXPECT_EQ(stats.file_bytes, bytes.size());
  EXPECT_EQ(stats.payload_bytes, 6);
  EXPECT_EQ(stats.weight_bytes, 12);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(number_at<std::uint32_t>(bytes, 8 + 4 * i) > 0, i == 7);
  expect_same(read_artifact(folder / "f", 3), {{"a", at::ones({3})}});
}

// 16 bits cannot name the rows of such a table.
TEST(Pergroup, ATableOfMoreRowsThanAnOrderCountsIsAmongTheOthers) {
  const TempDir folder;
  const std::vector<GptqTensor> table = {{"tok_emb.weight", gptq_weight(65537, 1)}};
  write_artifact_gptq(table, Compressor::pergroup, folder / "f");
  EXPECT_EQ(number_at<std::uint32_t>(read_file(folder / "f"), 8), 0);
  expect_same({read_stored_artifact(folder / "f", 1 << 25)[0]},
              {{"tok_emb.weight.q", std::get<GptqWeight>(table[0].stored).weight.q}});
}

struct Streams {
  std::vector<std::string> parts;

  explicit Streams(const std::string& file) {
    size_t at = 44;
    for (size_t i = 0; i < 9; ++i) {
      const auto size = number_at<std::uint32_t>(file, 8 + 4 * i);
      parts.push_back(file.substr(at, size));
      at += size;
    }
  }
  std::string file() const {
    std::string bytes = "PGRP";
    append_number(bytes, std::uint32_t{9});
    for (const auto& part : parts) append_number(bytes, static_cast<std::uint32_t>(part.size()));
    for (const auto& part : parts) bytes += part;
    return bytes;
  }
  PickleDict archive() const {
    return parse_torch_value(decompress_brotli(parts[7], 1 << 25, "f"), "f").as_dict("f");
  }
  void set_archive(const PickleDict& value) {
    parts[7] = compress_brotli(torch_value_bytes(value), 24);
  }
  std::string orders() const { return decompress_brotli(parts[8], 1 << 20, "f"); }
  void set_orders(const std::string& orders) { parts[8] = compress_brotli(orders, 22); }
};

TEST(Pergroup, StreamsWhoseLengthsShapesOrOrdersLieAreRefused) {
  const TempDir folder;
  write_artifact_gptq(tensors(), Compressor::pergroup, folder / "f");
  const Streams whole(read_file(folder / "f"));
  std::string bytes = whole.file();
  bytes[4] = 8;
  EXPECT_EQ(refusal_of(bytes), "f.ptz: expected 9 streams, found 8");
  bytes = whole.file();
  bytes[10] = static_cast<char>(bytes[10] + 1);
  EXPECT_EQ(refusal_of(bytes), fmt::format("f.ptz: expected {} bytes by its head, found {}",
                                           bytes.size() + 65536, bytes.size()));
  EXPECT_EQ(refusal_of(bytes.substr(0, 43)),
            "f.ptz: expected 44 bytes of a head, found 43; the file is cut short");

  // Each group's shapes in turn: one more matrix, another size, none, nonsense.
  const auto shapes_of = [](PickleDict& archive) -> PickleDict& {
    return std::get<PickleDict>(archive.items[2].second);
  };
  const auto with_shapes = [&](const PickleValue& shapes) {
    Streams streams = whole;
    PickleDict archive = whole.archive();
    shapes_of(archive).items[1].second = shapes;
    streams.set_archive(archive);
    return refusal_of(streams.file());
  };
  const auto shape = [](PickleValue rows, PickleValue columns) {
    return PickleValue(PickleList{{std::move(rows), std::move(columns)}, true});
  };
  const std::string where = "f.ptz: 's' 'attn.c_k.weight.q': ";
  EXPECT_EQ(with_shapes(PickleList{{shape(8, 16)}, false}),
            where + "expected the shapes of the 2 matrices in 'm', found 1");
  EXPECT_EQ(with_shapes(7), where + "expected a list, found a int");
  EXPECT_EQ(with_shapes(PickleList{{shape(8, 16), 7}, false}),
            where + "expected a shape of two sizes, found otherwise");
  EXPECT_EQ(with_shapes(PickleList{{shape(8, 16), shape(0, 16)}, false}),
            where + "expected a size from 1 on, found 0");
  EXPECT_EQ(with_shapes(PickleList{{shape(8, 16), shape("8", 16)}, false}),
            where + "expected a size from 1 on, found str");
  EXPECT_EQ(
      with_shapes(PickleList{{shape(8, 16), shape(int64_t{1} << 40, int64_t{1} << 40)}, false}),
      where +
          "expected at most 1000000 elements in all groups, found more; check the model's "
          "settings");
  EXPECT_EQ(with_shapes(PickleList{{shape(8, 16), shape(8, 17)}, false}),
            "f.ptz: attn.c_k.weight: expected 264 bytes when unpacked, found a stream of 256");

  Streams streams = whole;
  PickleDict archive = whole.archive();
  shapes_of(archive).add("mlp.more.weight.q", PickleList());
  streams.set_archive(archive);
  EXPECT_EQ(refusal_of(streams.file()), "f.ptz: 's' 'mlp.more.weight.q': no group of an artifact");

  streams = whole;
  std::string orders = whole.orders();
  orders.replace(2, 2, orders, 0, 2);
  streams.set_orders(orders);
  EXPECT_EQ(
      refusal_of(streams.file()),
      "f.ptz: the order of the rows of 'tok_emb.weight': expected each of 60 once, found row 0 "
      "twice");
  orders[2] = 60;
  streams.set_orders(orders);
  EXPECT_EQ(refusal_of(streams.file()),
            "f.ptz: the order of the rows of 'tok_emb.weight': expected each of 60 once, found row "
            "60");
  streams.set_orders(whole.orders().substr(2));
  EXPECT_EQ(refusal_of(streams.file()), "f.ptz: orders of rows: expected 404 bytes, found 402");
  streams.set_orders(whole.orders() + "xx");
  EXPECT_EQ(refusal_of(streams.file()),
            "f.ptz: orders of rows: expected at most 404 bytes when unpacked, found more");
  streams = whole;
  std::swap(streams.parts[1], streams.parts[2]);
  expect_start(refusal_of(streams.file()), "f.ptz: attn.c_k.weight: expected 256 bytes");
}

}  // namespace
}  // namespace tg::test
