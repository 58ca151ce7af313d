// The last record's artifact in its three packings, against a reader and a writer in Python.
#include <ATen/ATen.h>

#include <functional>
#include <mutex>

#include "files/compressed.h"
#include "files/little_endian.h"
#include "tests/files/file_size_limit.h"
#include "tests/files/testing.h"
#include "tests/weights/tensor_testing.h"
#include "weights/artifact_payload.h"
#include "weights/gptq_value.h"
#include "weights/pergroup.h"
#include "weights/read_artifact.h"
#include "weights/torch_file.h"
#include "weights/write_artifact_gptq.h"

namespace tg::test {
namespace {

constexpr int64_t kPlenty = 1'000'000;
const std::string kImports =
    "import sys; sys.dont_write_bytecode = True\n"
    "sys.path.insert(0, '" SOURCE_DIR "/tests/weights')\nimport reference, torch\n";

at::Tensor levels(at::IntArrayRef shape, int64_t least, int64_t most) {
  return at::randint(least, most + 1, shape, at::kChar);
}
at::Tensor scales(at::IntArrayRef shape) {
  return (at::rand(shape) + 0.1).to(at::kHalf);
}

enum class Correction { none, symmetric, asymmetric };

GptqWeight gptq_weight(int64_t rows, int64_t columns, int64_t bits = 6,
                       Correction correction = Correction::none) {
  const int64_t most = (1 << (bits - 1)) - 1;
  GptqWeight weight{{levels({rows, columns}, -most, most), scales({rows})}, bits, {}};
  if (correction == Correction::symmetric)
    weight.correction = {false,
                         {levels({rows, 4}, -7, 7), scales({rows})},
                         {levels({4, columns}, -7, 7), scales({4})}};
  if (correction == Correction::asymmetric)
    weight.correction = {true,
                         {levels({rows, 4}, -2, 1), scales({})},
                         {levels({4, columns}, -8, 7), scales({columns / 4})}};
  return weight;
}

// In no order. Of layers without attention, or with other shapes; more than nine layers; matrices
// of no group, one whose name only ends as a group's; tensors of every kind.
const std::vector<GptqTensor>& tensors() {
  static const std::vector<GptqTensor> all = [] {
    at::manual_seed(1);
    std::vector<GptqTensor> made;
    for (const int layer : {10, 0, 2}) {
      const auto add = [&](const char* name, auto stored) {
        made.push_back({fmt::format("blocks.{}.{}", layer, name), std::move(stored)});
      };
      add("mlp.fc.weight", gptq_weight(layer == 2 ? 30 : 40, 16));
      add("mlp.proj.weight", gptq_weight(16, 40, 6, Correction::symmetric));
      add("attn_scale", at::rand({16}));
      if (layer == 2) continue;
      add("attn.c_q.weight", gptq_weight(16, 16, 6, Correction::asymmetric));
      add("attn.c_k.weight", gptq_weight(8, 16));
      add("attn.c_v.weight", gptq_weight(8, 16, 4, Correction::asymmetric));
      add("attn.proj.weight", gptq_weight(16, 16));
      add("attn.attn_gate_w", QuantizedWeight{levels({4, 12}, -127, 127), scales({4})});
    }
    made.push_back({"tok_emb.weight", gptq_weight(60, 16, 7, Correction::asymmetric)});
    made.push_back({"lm_head.weight", gptq_weight(60, 16, 8)});
    made.push_back({"bigram.embed.weight", gptq_weight(50, 8, 2)});
    made.push_back({"ve_shared.attn.c_k.weight", gptq_weight(5, 7)});
    made.push_back({"blocks.0.more.attn.c_k.weight", gptq_weight(5, 7)});
    made.push_back({"smear_lambda", at::rand({})});
    return made;
  }();
  return all;
}

constexpr Compressor kCompressors[] = {Compressor::lzma, Compressor::brotli, Compressor::pergroup};

// ours.COMPRESSOR: of tensors(). theirs.COMPRESSOR: what Python made of the tensors that it read in
// each; weights.pt: their fp32; stored.pt: the tensors themselves.
const TempDir& files() {
  static const TempDir folder;
  static std::once_flag made;
  std::call_once(made, [] {
    for (const auto compressor : kCompressors)
      write_artifact_gptq(tensors(), compressor,
                          folder / fmt::format("ours.{}", choice_name(compressor)));
    run_python(folder, kImports + R"(
import brotli, lzma
values = {name: reference.load_gptq('ours.' + name) for name in ('lzma', 'brotli', 'pergroup')}
value = values['lzma']
for other in values.values():
    assert list(other['m'].items()) == list(value['m'].items())
    assert sorted(other['w']) == sorted(value['w'])
    wrong = [name for name in value['w'] if reference.differences(other['w'][name], value['w'][name])]
    assert not wrong, wrong
torch.save(value['w'], 'stored.pt')
torch.save(reference.gptq_weights(value), 'weights.pt')
reference.save(value, 'theirs.lzma', lambda archive: lzma.compress(archive, preset=9))
reference.save(value, 'theirs.brotli', lambda archive: brotli.compress(archive, quality=11))
reference.save_pergroup(value, 'theirs.pergroup')
)");
  });
  return folder;
}

NamedTensors sorted(NamedTensors named) {
  std::ranges::sort(named, {}, &NamedTensors::value_type::first);
  return named;
}

// What is stored of tensors(), as they are.
NamedTensors stored_tensors() {
  NamedTensors stored;
  const auto put = [&](const std::string& name, const QuantizedWeight& weight, const char* q,
                       const char* scale) {
    stored.emplace_back(name + q, weight.q);
    stored.emplace_back(name + scale, weight.scale);
  };
  for (const auto& [name, value] : tensors()) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value))
      stored.emplace_back(name, tensor->to(at::kHalf));
    if (const auto* gate = std::get_if<QuantizedWeight>(&value)) put(name, *gate, ".gq", ".gs");
    const auto* gptq = std::get_if<GptqWeight>(&value);
    if (!gptq) continue;
    put(name, gptq->weight, ".q", ".scale");
    if (!gptq->correction) continue;
    const bool asymmetric = gptq->correction->asymmetric;
    put(name, gptq->correction->a, asymmetric ? ".lqA_a" : ".lqA",
        asymmetric ? ".lqAs_a" : ".lqAs");
    put(name, gptq->correction->b, asymmetric ? ".lqB_a" : ".lqB",
        asymmetric ? ".lqBs_a" : ".lqBs");
  }
  return stored;
}

TEST(GptqArtifact, PythonReadsEveryPackingAndEachHoldsWhatWasWritten) {
  const auto& folder = files();
  const auto expected = sorted(stored_tensors());
  expect_same(sorted(load_torch(folder / "stored.pt").tensors), expected);
  for (const auto compressor : kCompressors)
    for (const char* whose : {"ours", "theirs"})
      expect_same(sorted(read_stored_artifact(
                      folder / fmt::format("{}.{}", whose, choice_name(compressor)), 1 << 25)),
                  expected);
}

TEST(GptqArtifact, OursAndPythonsAreReadAsTheWeightsThatPythonMakes) {
  const auto& folder = files();
  const auto expected = load_torch(folder / "weights.pt").tensors;
  ASSERT_EQ(expected.size(), tensors().size());
  for (const auto compressor : kCompressors) {
    for (const char* whose : {"ours", "theirs"}) {
      const auto found =
          read_artifact(folder / fmt::format("{}.{}", whose, choice_name(compressor)), kPlenty);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].first, expected[i].first);
        EXPECT_EQ(found[i].first, tensors()[i].name);
        EXPECT_EQ(found[i].second.scalar_type(), at::kFloat);
        // The sum over a correction's rank may be in another order.
        EXPECT_TRUE(at::allclose(found[i].second, expected[i].second, 1e-6, 1e-6))
            << found[i].first;
      }
    }
  }
}

TEST(GptqArtifact, AModelWithoutMatricesOfGroupsStartsNoProgram) {
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
TEST(GptqArtifact, ATableOfMoreRowsThanAnOrderCountsIsAmongTheOthers) {
  const TempDir folder;
  const std::vector<GptqTensor> table = {{"tok_emb.weight", gptq_weight(65537, 1)}};
  write_artifact_gptq(table, Compressor::pergroup, folder / "f");
  EXPECT_EQ(number_at<std::uint32_t>(read_file(folder / "f"), 8), 0);
  expect_same({read_stored_artifact(folder / "f", 1 << 25)[0]},
              {{"tok_emb.weight.q", std::get<GptqWeight>(table[0].stored).weight.q}});
}

TEST(GptqArtifact, ATensorThatIsNotFiniteInFp16IsNotWritten) {
  const TempDir folder;
  expect_error(
      [&] {
        write_artifact_gptq({{"a", at::full({3}, 1e9)}}, Compressor::brotli, folder / "f");
      },
      ExitCode::internal, "a: not finite as the artifact's Half");
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
}

std::string refusal_of(const std::string& bytes, int64_t max_elements = kPlenty) {
  const TempDir folder;
  write_file(folder / "f.ptz", bytes);
  const auto message =
      error_of(ExitCode::bad_data, [&] { read_artifact(folder / "f.ptz", max_elements); });
  const auto at = message.find("f.ptz: ");
  EXPECT_NE(at, std::string::npos) << message;
  return message.substr(std::min(at, message.size()));
}

// The value of one tensor that has a correction, after `change`, in brotli.
std::string refusal_after(const std::function<void(PickleDict& w, PickleDict& m)>& change) {
  ArtifactStats stats;
  PickleDict all = gptq_value({{"a", gptq_weight(6, 8, 6, Correction::asymmetric)}}, stats);
  change(std::get<PickleDict>(all.items[0].second), std::get<PickleDict>(all.items[1].second));
  return refusal_of(compress_brotli(torch_value_bytes(all), 22));
}

auto replaced(const std::string& name, const at::Tensor& tensor) {
  return [=](PickleDict& w, PickleDict&) {
    for (auto& [key, value] : w.items)
      if (key == name) value = tensor;
  };
}

TEST(GptqArtifact, TensorsThatDoNotFitEachOtherAreRefused) {
  const auto without = [](const std::string& name) {
    return [=](PickleDict& w, PickleDict&) {
      std::erase_if(w.items, [&](const auto& item) { return item.first == name; });
    };
  };
  const auto of_kind = [](const std::string& kind) {
    return [=](PickleDict&, PickleDict& m) { m.items[0].second = kind; };
  };
  for (const char* name : {"a.q", "a.scale", "a.lqA_a", "a.lqAs_a", "a.lqB_a", "a.lqBs_a"})
    EXPECT_EQ(refusal_after(without(name)),
              fmt::format("f.ptz: 'w' '{}': expected a tensor, found none", name));
  const std::string uncorrected = refusal_after(of_kind("gptq (int6)"));
  expect_start(uncorrected, "f.ptz: 'w' 'a.lq");
  expect_part(uncorrected, "': no part of an artifact");
  for (const char* kind : {"gptq (int1)", "gptq (int9)", "gptq (int6)+lq", "gptq (int6"})
    EXPECT_EQ(refusal_after(of_kind(kind)),
              fmt::format("f.ptz: 'm' 'a': expected passthrough (float16), gate_int8_row or gptq "
                          "(int6) with 2 to 8 bits and +lqer or +lqer_asym or neither, found {}",
                          kind));
  EXPECT_EQ(refusal_after(of_kind("gptq (int6)+lqer")),
            "f.ptz: 'w' 'a.lqA': expected a tensor, found none");
  EXPECT_EQ(refusal_after(replaced("a.q", at::full({6, 8}, 32, at::kChar))),
            "f.ptz: 'a': expected levels from -31 to 31, found 32 to 32");
  EXPECT_EQ(refusal_after(replaced("a.lqA_a", at::full({6, 4}, -3, at::kChar))),
            "f.ptz: 'a' A: expected levels from -2 to 1, found -3 to -3");
  EXPECT_EQ(refusal_after(replaced("a.lqB_a", at::full({4, 8}, 8, at::kChar))),
            "f.ptz: 'a' B: expected levels from -8 to 7, found 8 to 8");
  for (const auto& q :
       {at::zeros({6, 8}), at::zeros({48}, at::kChar), at::zeros({7, 8}, at::kChar)})
    expect_start(refusal_after(replaced("a.q", q)),
                 "f.ptz: 'a': expected an int8 matrix with a scale a row, found ");
  const std::pair<const char*, at::Tensor> factors[] = {
      {"a.lqA_a", at::zeros({5, 4}, at::kChar)},
      {"a.lqA_a", at::zeros({6, 3}, at::kChar)},
      {"a.lqB_a", at::zeros({4, 9}, at::kChar)},
      {"a.lqB_a", at::zeros({32}, at::kChar)},
      {"a.lqAs_a", scales({6})},
      {"a.lqBs_a", scales({3})},
      {"a.lqBs_a", scales({0})},
      {"a.lqBs_a", scales({})},
      {"a.lqBs_a", at::zeros({2}, at::kInt)},
      {"a.lqB_a", at::zeros({4, 8}, at::kFloat)},
  };
  for (const auto& [name, tensor] : factors)
    expect_start(refusal_after(replaced(name, tensor)),
                 "f.ptz: 'a': expected int8 factors of [6, 8] with their scales, found A ");
  // Neither is there anything to multiply in factors of rank 0, nor in a matrix without rows.
  expect_start(refusal_after([](PickleDict& w, PickleDict& m) {
                 replaced("a.lqA_a", at::zeros({6, 0}, at::kChar))(w, m);
                 replaced("a.lqB_a", at::zeros({0, 8}, at::kChar))(w, m);
               }),
               "f.ptz: 'a': expected int8 factors of [6, 8] with their scales, found A ");
  expect_start(refusal_after([](PickleDict& w, PickleDict& m) {
                 replaced("a.q", at::zeros({0, 8}, at::kChar))(w, m);
                 replaced("a.scale", scales({0}))(w, m);
                 replaced("a.lqA_a", at::zeros({0, 4}, at::kChar))(w, m);
               }),
               "f.ptz: 'a': expected an int8 matrix with a scale a row, found Char [0, 8]");
  // A rank above that of the matrix would take more memory than it.
  EXPECT_NE(refusal_after([](PickleDict& w, PickleDict& m) {
              replaced("a.lqA_a", at::zeros({6, 7}, at::kChar))(w, m);
              replaced("a.lqB_a", at::zeros({7, 8}, at::kChar))(w, m);
            }).find("A Char [6, 7]"),
            std::string::npos);
}

TEST(GptqArtifact, WhatIsCutShortOrNoArtifactIsRefused) {
  const auto& folder = files();
  for (const auto compressor : kCompressors) {
    const std::string whole = read_file(folder / fmt::format("ours.{}", choice_name(compressor)));
    for (size_t i = 1; i < 20; ++i)
      expect_start(refusal_of(whole.substr(0, whole.size() * i / 20)), "f.ptz: ");
    expect_start(refusal_of(whole + "x"), "f.ptz: expected ");
    EXPECT_EQ(refusal_of(whole, 7000).find("f.ptz: "), 0);
  }
  const std::string whole = read_file(folder / "ours.brotli");
  EXPECT_EQ(refusal_of(whole.substr(0, whole.size() / 2)),
            "f.ptz: expected a whole brotli stream; it is cut short");
  at::manual_seed(2);
  for (int i = 0; i < 200; ++i) {
    const auto drawn = at::randint(0, 256, {300}, at::kByte);
    const std::string random(static_cast<const char*>(drawn.const_data_ptr()), 300);
    EXPECT_EQ(
        refusal_of(i == 0 ? "# Some text, such as a README.\n" : random),
        "f.ptz: expected an artifact (int6: .xz; int8: zlib; gptq: .xz, brotli or per group), "
        "found none of them");
  }
  EXPECT_EQ(refusal_of(compress_brotli("brotli, but no archive", 22)).substr(0, 27),
            "f.ptz: expected an artifact");
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

TEST(GptqArtifact, StreamsWhoseLengthsShapesOrOrdersLieAreRefused) {
  const Streams whole(read_file(files() / "ours.pergroup"));
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

TEST(GptqArtifact, AFullDiskLeavesNoFileAndKeepsAnOldOne) {
  const TempDir folder;
  write_file(folder / "old", "old");
  const std::vector<GptqTensor> large = {{"a", gptq_weight(200, 200)}};
  {
    const FileSizeLimit limit(4096);
    for (const auto compressor : {Compressor::lzma, Compressor::brotli, Compressor::pergroup})
      for (const char* name : {"new", "old"})
        expect_error([&] { write_artifact_gptq(large, compressor, folder / name); }, ExitCode::io,
                     name);
  }
  EXPECT_EQ(read_file(folder / "old"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace tg::test
