#include "weights/pickle/torch_file.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <caffe2/serialize/inline_container.h>

#include <exception>
#include <map>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/byte_source.h"
#include "files/zip_reader.h"
#include "weights/pickle/pickle.h"
#include "weights/tensors/tensor_check.h"

namespace tg {
namespace {

constexpr uint64_t kMaxPickle = 16 << 20;
// Magic number of torch.save's legacy format, from before it wrote zip files.
constexpr std::string_view kLegacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46";

PickleDict dict_of(const NamedTensors& tensors) {
  PickleDict dict;
  for (const auto& [name, tensor] : tensors) dict.add(name, tensor);
  return dict;
}

std::string small_record(const ZipReader& zip, const std::string& name, const ZipRecord& record,
                         uint64_t max_size, const std::string& file) {
  REQUIRE(record.size <= max_size, ExitCode::bad_data, "{}: {} has {} bytes, expected at most {}",
          file, name, record.size, max_size);
  std::string bytes(record.size, '\0');
  zip.read(record, bytes.data());
  return bytes;
}

at::Tensor load_storage(const ZipReader& zip, const std::string& key, c10::ScalarType dtype,
                        int64_t numel, const std::string& file) {
  const std::string label = escaped(key);
  const ZipRecord* record = zip.find("data/" + key);
  REQUIRE(record, ExitCode::bad_data, "{}: storage {} is missing", file, label);
  const auto checked = checked_numel(numel, c10::elementSize(dtype));
  REQUIRE(checked && static_cast<uint64_t>(numel) * c10::elementSize(dtype) == record->size,
          ExitCode::bad_data, "{}: storage {}: expected {} elements of {}, found {} bytes", file,
          label, numel, c10::toString(dtype), record->size);
  at::Tensor storage = at::empty({numel}, at::TensorOptions().dtype(dtype));
  zip.read(*record, storage.mutable_data_ptr());
  REQUIRE(dtype != c10::ScalarType::Bool || all_zero_or_one(storage), ExitCode::bad_data,
          "{}: storage {} is bool, expected bytes 0 and 1, found others", file, label);
  return storage;
}

// `read` is read_pickle or read_state_dict.
template <class Result>
Result read_archive(const ByteSource& source,
                    Result (*read)(std::string_view, const std::string&, const StorageLoader&)) {
  const at::NoGradGuard no_grad;
  const std::string& file = source.name();
  if (source.holds(0, kLegacy.size()) && source.read(0, kLegacy.size()) == kLegacy)
    fail(
        ExitCode::bad_data,
        "{}: expected a zip, found torch.save's format from before 1.6; load and save it once with "
        "a newer torch",
        file);
  const ZipReader zip(source);
  const ZipRecord* pickle = zip.find("data.pkl");
  REQUIRE(pickle, ExitCode::bad_data, "{}: expected an archive of torch.save; data.pkl is missing",
          file);
  if (const ZipRecord* order = zip.find("byteorder")) {
    const std::string found = small_record(zip, "byteorder", *order, 16, file);
    REQUIRE(found == "little", ExitCode::bad_data, "{}: expected byteorder little, found {}", file,
            escaped(found));
  }
  std::map<std::string, at::Tensor> loaded;  // each storage once, however many tensors view it
  const auto load = [&](std::string_view key, c10::ScalarType dtype, int64_t numel) {
    const std::string name(key);
    auto& storage = loaded[name];
    if (!storage.defined()) storage = load_storage(zip, name, dtype, numel, file);
    REQUIRE(storage.scalar_type() == dtype && storage.numel() == numel, ExitCode::bad_data,
            "{}: storage {} is named with two dtypes or sizes", file, escaped(name));
    return storage;
  };
  return read(small_record(zip, "data.pkl", *pickle, kMaxPickle, file), file, load);
}

}  // namespace

void write_torch_value(const ByteSink& sink, const PickleValue& value) {
  const at::NoGradGuard no_grad;
  const WrittenPickle pickle = write_pickle(value);
  // Exceptions must not propagate through the zip writer, which is C, nor through its destructor,
  // which finishes the archive: after the first exception all output is dropped, and it is rethrown
  // at the end.
  std::exception_ptr failure;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, size_t count) {
      try {
        if (!failure) sink(bytes, count);
      } catch (...) {
        failure = std::current_exception();
      }
      return count;
    });
    writer.writeRecord("data.pkl", pickle.bytes.data(), pickle.bytes.size());
    writer.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < pickle.storages.size() && !failure; ++i) {
      const at::Tensor tensor = pickle.storages[i].to(at::kCPU).contiguous();
      writer.writeRecord("data/" + std::to_string(i), tensor.const_data_ptr(), tensor.nbytes());
    }
    writer.writeEndOfFile();
  }
  if (failure) std::rethrow_exception(failure);
}

void save_torch_value(const std::string& path, const PickleValue& value) {
  AtomicFile file(path);
  write_torch_value([&](const void* bytes, size_t count) { file.write(bytes, count); }, value);
  file.commit();
}

std::string torch_value_bytes(const PickleValue& value) {
  std::string archive;
  write_torch_value([&](const void* bytes,
                        size_t count) { archive.append(static_cast<const char*>(bytes), count); },
                    value);
  return archive;
}

PickleValue parse_torch_value(std::string_view bytes, const std::string& name) {
  return read_archive(MemorySource(bytes, name), read_pickle);
}

void save_torch(const std::string& path, const NamedTensors& tensors) {
  save_torch_value(path, dict_of(tensors));
}

StateDict load_torch(const std::string& path) {
  return read_archive(FileSource(path), read_state_dict);
}

}  // namespace tg
