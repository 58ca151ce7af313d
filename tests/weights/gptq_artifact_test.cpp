// The last record's artifact in its three packings, against a reader and a writer in Python.
#include "tests/weights/gptq_artifact.h"

#include <functional>
#include <mutex>

#include "files/compressed.h"
#include "tests/files/file_size_limit.h"
#include "tests/weights/tensor_testing.h"
#include "tests/weights/torch_python.h"
#include "weights/artifact/gptq_value.h"
#include "weights/pickle/torch_file.h"

namespace tg::test {
namespace {

const std::string kImports =
    "import sys; sys.dont_write_bytecode = True\n"
    "sys.path.insert(0, '" SOURCE_DIR "/tests/weights')\nimport reference, torch\n";

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
    run_torch(folder, kImports + R"(
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

TEST(GptqArtifact, ATensorThatIsNotFiniteInFp16IsNotWritten) {
  const TempDir folder;
  expect_error(
      [&] {
        write_artifact_gptq({{"a", at::full({3}, 1e9)}}, Compressor::brotli, folder / "f");
      },
      ExitCode::internal, "a: not finite as the artifact's Half");
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
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
  // A rank above the matrix's would take more memory than the matrix.
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
