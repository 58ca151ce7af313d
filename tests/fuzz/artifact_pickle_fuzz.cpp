// The pickle inside an artifact, which checksums would hide from mutations: the archive is made and
// packed anew. The first byte, 6 or 8, is the format.
#include <lzma.h>

#include "files/compressed.h"
#include "files/zip_reader.h"
#include "tests/fuzz/artifact_seeds.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/tensors.h"
#include "tests/weights/zip_testing.h"
#include "weights/pickle_writer.h"
#include "weights/read_artifact.h"

namespace tg::fuzz {
namespace {

std::vector<CraftedRecord> storages_of(const PickleDict& value) {
  std::vector<CraftedRecord> records;
  for (const at::Tensor& storage : write_pickle(value).storages)
    records.push_back({.name = "a/data/" + std::to_string(records.size()),
                       .bytes = {static_cast<const char*>(storage.const_data_ptr()),
                                 static_cast<size_t>(storage.nbytes())}});
  return records;
}

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
  return {"6" + write_pickle(int6_value()).bytes, "8" + write_pickle(int8_value()).bytes};
}

void read(std::string_view bytes) {
  static const std::vector<CraftedRecord> storages[] = {storages_of(int6_value()),
                                                        storages_of(int8_value())};
  static ScratchFile file;
  if (bytes.empty()) return;
  const bool int6 = bytes[0] == '6';
  auto records = storages[int6 ? 0 : 1];
  records.insert(records.begin(), {.name = "a/data.pkl", .bytes = std::string(bytes.substr(1))});
  const std::string archive = crafted_zip(records);
  file.put(int6 ? packed(archive) : compress_zlib(archive));
  for (const auto& [name, tensor] : read_artifact(file.path(), 64)) touch(tensor);
}

}  // namespace tg::fuzz
