// A checkpoint's manifest, and the mark of a finished run beside it.
#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "tests/fuzz/target.h"

namespace tg::fuzz {

namespace {

ScratchFile& manifest_file() {
  static ScratchFile file("manifest.json");
  return file;
}

ScratchFile& finished_file() {
  static ScratchFile file("finished.json");
  return file;
}

}  // namespace

std::vector<std::string> seeds() {
  const ScratchFile scratch;
  const auto folder = scratch.folder();
  write_manifest(folder, {.step = 100,
                          .world_size = 2,
                          .program = "train_gpt commit 1, LibTorch 2.11.0",
                          .model = ModelRecord{"last_record", 1, true, 100},
                          .settings = {{"SEED", "1337"}, {"VE_LAYERS", "9,10"}},
                          .files = {{"rank-00000.safetensors", {12, 0x123456789abcdef0}},
                                    {"rank-00001.safetensors", {0, 1}}}});
  write_finished(folder, {.step = 12, .iterations = 12, .max_wallclock_seconds = 600});
  return {file_bytes(folder + "/manifest.json"), file_bytes(folder + "/finished.json")};
}

void read(std::string_view bytes) {
  finished_file().put(bytes);
  try {
    read_finished(finished_file().folder());
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::bad_data) throw;
  }
  manifest_file().put(bytes);
  const auto folder = manifest_file().folder();
  read_checkpoint(folder, read_manifest(folder));
}

}  // namespace tg::fuzz
