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
constexpr auto choices_of(LoaderOrder) {
  return std::to_array<std::string_view>({"stream", "strided", "documents", "aligned"});
}
constexpr auto choices_of(ByteCountSource) {
  return std::to_array<std::string_view>({"auto", "sidecar", "tokenizer"});
}
constexpr auto choices_of(DocumentAttentionChoice) {
  return std::to_array<std::string_view>({"auto", "0", "1"});
}
constexpr auto choices_of(ValueResidual) {
  return std::to_array<std::string_view>({"0", "1", "blend"});
}
constexpr auto choices_of(ResidMix) {
  return std::to_array<std::string_view>({"vector", "scalar"});
}
constexpr auto choices_of(RopeYarn) {
  return std::to_array<std::string_view>({"auto", "0", "1"});
}
constexpr auto choices_of(RecipeChoice) {
  return std::to_array<std::string_view>(
      {"auto", "record", "speedrun", "last_record", "speedrun_43", "speedrun_89", "speedrun_91"});
}
constexpr auto choices_of(ParallelFinalLane) {
  return std::to_array<std::string_view>({"mean", "attn", "mlp"});
}
constexpr auto choices_of(SmearKind) {
  return std::to_array<std::string_view>({"off", "channels", "gated"});
}
constexpr auto choices_of(HeadGateKind) {
  return std::to_array<std::string_view>({"off", "full", "biased", "sparse", "output"});
}
constexpr auto choices_of(GateSource) {
  return std::to_array<std::string_view>({"proj", "q"});
}
constexpr auto choices_of(MuonCoefficients) {
  return std::to_array<std::string_view>({"quintic", "polar_express"});
}
constexpr auto choices_of(DeviceChoice) {
  return std::to_array<std::string_view>({"auto", "cuda", "cpu"});
}
constexpr auto choices_of(ComputeDtype) {
  return std::to_array<std::string_view>({"auto", "bf16", "fp16", "tf32", "fp32"});
}
constexpr auto choices_of(AttentionChoice) {
  return std::to_array<std::string_view>({"auto", "cudnn", "flash", "math"});
}
constexpr auto choices_of(ProfileMode) {
  return std::to_array<std::string_view>({"0", "1", "nvtx"});
}
constexpr auto choices_of(ActivationRecompute) {
  return std::to_array<std::string_view>({"0", "light", "block"});
}
constexpr auto choices_of(OnNonfinite) {
  return std::to_array<std::string_view>({"stop", "skip"});
}
constexpr auto choices_of(Artifact) {
  return std::to_array<std::string_view>({"int6", "int8_zlib", "gptq", "none"});
}
constexpr auto choices_of(Compressor) {
  return std::to_array<std::string_view>({"lzma", "brotli", "pergroup"});
}
constexpr auto choices_of(TttOptimizer) {
  return std::to_array<std::string_view>({"adam", "sgd"});
}
constexpr auto choices_of(TimingBreakdown) {
  return std::to_array<std::string_view>({"0", "1", "events"});
}
constexpr auto choices_of(CountDevice) {
  return std::to_array<std::string_view>({"cpu", "cuda"});
}
constexpr auto choices_of(PadVocab) {
  return std::to_array<std::string_view>({"auto", "0"});
}
constexpr auto choices_of(HopperChoice) {
  return std::to_array<std::string_view>({"auto", "0", "1"});
}
constexpr auto choices_of(WeightsChoice) {
  return std::to_array<std::string_view>({"auto", "raw", "ema"});
}

template <ChoiceEnum E>
constexpr std::string_view choice_name(E value) {
  return choices_of(value)[static_cast<std::size_t>(value)];
}

}  // namespace tg
