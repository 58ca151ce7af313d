// Small valid files with bytes changed, cut, doubled and put in: each loads or is refused with an
// Error, and no step on the way allocates more than a small multiple of the file.
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>

#include "store/safetensors.h"
#include "store/torch_file.h"
#include "store/weights_file.h"
#include "tests/store/store_testing.h"
#include "tests/store/tensor_testing.h"
#include "tests/store/zip_testing.h"

namespace {

std::atomic<size_t> largest_allocation{0};

void note(size_t size) {
  if (size > largest_allocation.load()) largest_allocation = size;
}

class NotingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    note(size);
    return c10::GetDefaultCPUAllocator()->allocate(size);
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }
};

}  // namespace

// Never inlined: the compiler would see malloc's memory freed, or new's, and warn of a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  note(size);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  note(size);
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace tg {
namespace {

constexpr size_t kAllocationLimit = 100 << 20;
constexpr int kMutations = 4000;

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t limit) { return limit == 0 ? 0 : random() % limit; };
  constexpr char extremes[] = {'\0', '\1', '\x7f', '\x80', '\xff'};
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size()), length = below(std::min<size_t>(16, bytes.size() - at));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.replace(at, length, length, extremes[below(5)]);
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
        break;
      default:
        bytes.insert(at, 1, extremes[below(5)]);
        break;
    }
  }
  return bytes;
}

// What loads must be whole: every element is read.
void touch(const PickleValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) tensor->clone();
  if (const auto* list = std::get_if<PickleList>(&value))
    for (const auto& item : list->items) touch(item);
  if (const auto* dict = std::get_if<PickleDict>(&value))
    for (const auto& [key, item] : dict->items) touch(item);
}

template <typename Load>
void load_mutations(const std::string& valid, const Load& load) {
  NotingAllocator noting;
  c10::Allocator* const before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&noting, 200);
  std::mt19937 random(1337);
  int loaded = 0;
  largest_allocation = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string bytes = mutated(valid, random);
    try {
      load(bytes);
      ++loaded;
    } catch (const Error& error) {
      EXPECT_NE(error.what(), std::string());
    } catch (const std::exception& other) {
      ADD_FAILURE() << "mutation " << i << " threw " << other.what();
    }
    if (largest_allocation > kAllocationLimit) {
      ADD_FAILURE() << "mutation " << i << " allocated " << largest_allocation << " bytes";
      largest_allocation = 0;
    }
  }
  c10::SetCPUAllocator(before, 200);
  std::printf("%d of %d mutations loaded; largest allocation %zu bytes\n", loaded, kMutations,
              largest_allocation.load());
}

NamedTensors small() {
  return {{"a", at::arange(6, at::kFloat).reshape({2, 3})},
          {"b", at::ones({2}, at::kBool)},
          {"c", at::empty({0})}};
}

TEST(Mutation, SafetensorsLoadOrAreRefused) {
  const TempFolder folder;
  save_safetensors(folder / "w", small(), {{"k", "v"}});
  load_mutations(file_bytes(folder / "w"), [&](const std::string& bytes) {
    put_file(folder / "w", bytes);
    for (const auto& [name, tensor] : load_weights(folder / "w")) tensor.clone();
  });
}

TEST(Mutation, TorchFilesLoadOrAreRefused) {
  const TempFolder folder;
  save_torch(folder / "w", small());
  load_mutations(file_bytes(folder / "w"),
                 [](const std::string& bytes) { touch(parse_torch_value(bytes, "w")); });
}

// The checksum would hide the pickle from most mutations: here only the pickle changes, and the
// archive around it is made afresh.
TEST(Mutation, PicklesLoadOrAreRefused) {
  PickleDict dict;
  for (const auto& [name, tensor] : small()) dict.add(name, tensor);
  dict.add("m", PickleList{{PickleValue(300), PickleValue(0.5), PickleValue("text")}, true});
  const std::string archive = torch_value_bytes(dict);
  const MemorySource source(archive, "valid");
  const ZipReader zip(source);
  const auto record = [&](const std::string& name) {
    return source.ByteSource::read(zip.find(name)->offset, zip.find(name)->size);
  };
  load_mutations(record("data.pkl"), [&](const std::string& pickle) {
    touch(parse_torch_value(crafted_zip({{"a/data.pkl", pickle},
                                         {"a/data/0", record("data/0")},
                                         {"a/data/1", record("data/1")},
                                         {"a/data/2", record("data/2")}}),
                            "w"));
  });
}

}  // namespace
}  // namespace tg
