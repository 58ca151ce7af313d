#pragma once
// Enumerated settings, and the word for each of their values.
#include <array>
#include <string_view>
#include <type_traits>

namespace tg {

enum class LoaderOrder { stream, strided, documents, aligned };
enum class ByteCountSource { automatic, sidecar, tokenizer };
enum class DocumentAttentionChoice { automatic, off, on };
enum class ValueResidual { off, on, blend };
enum class ResidMix { vector, scalar };
enum class RopeYarn { automatic, off, on };
enum class RecipeChoice {
  automatic,
  record,
  speedrun,
  last_record,
  speedrun_43,
  speedrun_89,
  speedrun_91
};
enum class ParallelFinalLane { mean, attention, mlp };
enum class SmearKind { off, channels, gated };
enum class HeadGateKind { off, full, biased, sparse, output };
enum class GateSource { proj, queries };
enum class MuonCoefficients { quintic, polar_express };
enum class DeviceChoice { automatic, cuda, cpu };
enum class ComputeDtype { automatic, bf16, fp16, tf32, fp32 };
enum class AttentionChoice { automatic, cudnn, flash, math };
enum class ProfileMode { off, on, nvtx };
enum class ActivationRecompute { off, light, block };
enum class OnNonfinite { stop, skip };
enum class Artifact { int6, int8_zlib, gptq, none };
enum class Compressor { lzma, brotli, pergroup };
enum class TttOptimizer { adam, sgd };
enum class TimingBreakdown { off, sync, events };
enum class CountDevice { cpu, cuda };
enum class PadVocab { automatic, off };
enum class HopperChoice { automatic, off, on };
enum class WeightsChoice { automatic, raw, ema };

template <class E>
concept ChoiceEnum = std::is_enum_v<E>;

// The words of each list, in the order of its enumerators.
struct Choices {
  static constexpr auto words(auto... all) { return std::array{std::string_view(all)...}; }

  static constexpr auto of(LoaderOrder) {
    return words("stream", "strided", "documents", "aligned");
  }
  static constexpr auto of(ByteCountSource) { return words("auto", "sidecar", "tokenizer"); }
  static constexpr auto of(DocumentAttentionChoice) { return words("auto", "0", "1"); }
  static constexpr auto of(ValueResidual) { return words("0", "1", "blend"); }
  static constexpr auto of(ResidMix) { return words("vector", "scalar"); }
  static constexpr auto of(RopeYarn) { return words("auto", "0", "1"); }
  static constexpr auto of(RecipeChoice) {
    return words("auto", "record", "speedrun", "last_record", "speedrun_43", "speedrun_89",
                 "speedrun_91");
  }
  static constexpr auto of(ParallelFinalLane) { return words("mean", "attn", "mlp"); }
  static constexpr auto of(SmearKind) { return words("off", "channels", "gated"); }
  static constexpr auto of(HeadGateKind) {
    return words("off", "full", "biased", "sparse", "output");
  }
  static constexpr auto of(GateSource) { return words("proj", "q"); }
  static constexpr auto of(MuonCoefficients) { return words("quintic", "polar_express"); }
  static constexpr auto of(DeviceChoice) { return words("auto", "cuda", "cpu"); }
  static constexpr auto of(ComputeDtype) { return words("auto", "bf16", "fp16", "tf32", "fp32"); }
  static constexpr auto of(AttentionChoice) { return words("auto", "cudnn", "flash", "math"); }
  static constexpr auto of(ProfileMode) { return words("0", "1", "nvtx"); }
  static constexpr auto of(ActivationRecompute) { return words("0", "light", "block"); }
  static constexpr auto of(OnNonfinite) { return words("stop", "skip"); }
  static constexpr auto of(Artifact) { return words("int6", "int8_zlib", "gptq", "none"); }
  static constexpr auto of(Compressor) { return words("lzma", "brotli", "pergroup"); }
  static constexpr auto of(TttOptimizer) { return words("adam", "sgd"); }
  static constexpr auto of(TimingBreakdown) { return words("0", "1", "events"); }
  static constexpr auto of(CountDevice) { return words("cpu", "cuda"); }
  static constexpr auto of(PadVocab) { return words("auto", "0"); }
  static constexpr auto of(HopperChoice) { return words("auto", "0", "1"); }
  static constexpr auto of(WeightsChoice) { return words("auto", "raw", "ema"); }
};

template <ChoiceEnum E>
constexpr std::string_view choice_name(E value) {
  return Choices::of(value)[static_cast<std::size_t>(value)];
}

}  // namespace tg
