// The pickle inside an artifact, which checksums would hide from mutations: the archive is made and
// packed anew. The first byte, 6, 8 or g, is the format.
#include <lzma.h>

#include "files/compressed.h"
#include "tests/fuzz/artifact_seeds.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "weights/artifact/read_artifact.h"
#include "weights/pickle/pickle.h"

namespace tg::fuzz {
namespace {

// By liblzma's least: the artifact's own writer starts threads and takes 25 MB.
std::string packed(const std::string& bytes) {
  std::string out(lzma_stream_buffer_bound(bytes.size()), '\0');
  size_t size = 0;
  lzma_easy_buffer_encode(0, LZMA_CHECK_NONE, nullptr,
                          reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                          reinterpret_cast<uint8_t*>(out.data()), &size, out.size());
  return out.substr(0, size);
}

}  // namespace

std::vector<std::string> seeds() {
  return {"6" + write_pickle(int6_value()).bytes, "8" + write_pickle(int8_value()).bytes,
          "g" + write_pickle(gptq_value()).bytes};
}

void read(std::string_view bytes) {
  static const std::vector<CraftedRecord> storages[] = {
      storages_of(int6_value()), storages_of(int8_value()), storages_of(gptq_value())};
  static ScratchFile file;
  if (bytes.empty()) return;
  const char format = bytes[0];
  const std::string archive = archive_of(bytes.substr(1), storages[format == '6'   ? 0
                                                                   : format == '8' ? 1
                                                                                   : 2]);
  file.put(format == '8' ? compress_zlib(archive) : packed(archive));
  for (const auto& [name, tensor] : read_artifact(file.path(), 64)) touch(tensor);
}

}  // namespace tg::fuzz
