#include <bit>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "files/little_endian.h"
#include "weights/pickle/pickle.h"
#include "weights/tensors/dtype_names.h"

namespace tg {
namespace {

class PickleWriter {
 public:
  WrittenPickle write(const PickleValue& value) {
    out_.bytes = "\x80\x02";
    std::visit(*this, value);
    out_.bytes += '.';
    return std::move(out_);
  }

  void operator()(std::monostate) { out_.bytes += 'N'; }
  void operator()(bool value) { out_.bytes += value ? '\x88' : '\x89'; }
  void operator()(int64_t value) {
    if (value >= 0 && value <= 0xff) {
      number('K', static_cast<uint8_t>(value));
    } else if (value >= 0 && value <= 0xffff) {
      number('M', static_cast<uint16_t>(value));
    } else if (value == static_cast<int32_t>(value)) {
      number('J', static_cast<int32_t>(value));
    } else {
      out_.bytes += '\x8a';
      number('\x08', value);
    }
  }
  void operator()(double value) { number('G', __builtin_bswap64(std::bit_cast<uint64_t>(value))); }
  void operator()(const std::string& text) {
    REQUIRE(text.size() <= std::numeric_limits<uint32_t>::max(), ExitCode::internal,
            "a string of {} bytes is too long for a pickle", text.size());
    std::string code = "X";
    append_number(code, static_cast<uint32_t>(text.size()));
    shared(code + text);
  }
  void operator()(const at::Tensor& tensor) {
    REQUIRE(tensor.defined(), ExitCode::internal, "an undefined tensor cannot be saved");
    const auto* const names = find_dtype(&DtypeNames::dtype, tensor.scalar_type());
    REQUIRE(names, ExitCode::internal, "torch.save files have no tensors of {}",
            c10::toString(tensor.scalar_type()));
    global("torch._utils", "_rebuild_tensor_v2");
    out_.bytes += "((";
    (*this)(std::string("storage"));
    global("torch", names->storage);
    (*this)(std::to_string(out_.storages.size()));
    (*this)(std::string("cpu"));
    (*this)(tensor.numel());
    out_.bytes += "tQ";
    (*this)(int64_t{0});
    std::vector<int64_t> strides(static_cast<size_t>(tensor.dim()));
    int64_t stride = 1;
    for (size_t i = strides.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= std::max<int64_t>(tensor.size(static_cast<int64_t>(i)), 1);
    }
    tuple(tensor.sizes());
    tuple(strides);
    (*this)(false);  // requires_grad
    global("collections", "OrderedDict");
    out_.bytes += ")RtR";  // no hooks
    out_.storages.push_back(tensor);
  }
  void operator()(const PickleList& list) {
    if (!list.is_tuple) out_.bytes += ']';
    out_.bytes += '(';
    for (const PickleValue& item : list.items) std::visit(*this, item);
    out_.bytes += list.is_tuple ? 't' : 'e';
  }
  void operator()(const PickleDict& dict) {
    out_.bytes += "}(";
    for (const auto& [key, value] : dict.items) {
      (*this)(key);
      std::visit(*this, value);
    }
    out_.bytes += 'u';
  }

 private:
  void number(char opcode, auto value) {
    out_.bytes += opcode;
    append_number(out_.bytes, value);
  }
  void global(std::string_view module, std::string_view name) {
    shared(fmt::format("c{}\n{}\n", module, name));
  }
  void tuple(c10::IntArrayRef numbers) {
    out_.bytes += '(';
    for (int64_t value : numbers) (*this)(value);
    out_.bytes += 't';
  }
  // Writes strings and globals once; later uses refer to the memo.
  void shared(const std::string& code) {
    const auto [found, is_new] = memo_.try_emplace(code, static_cast<uint32_t>(memo_.size()));
    if (is_new) out_.bytes += code;
    const uint32_t index = found->second;
    if (index <= 0xff)
      number(is_new ? 'q' : 'h', static_cast<uint8_t>(index));
    else
      number(is_new ? 'r' : 'j', index);
  }

  WrittenPickle out_;
  std::unordered_map<std::string, uint32_t> memo_;
};

}  // namespace

WrittenPickle write_pickle(const PickleValue& value) {
  return PickleWriter().write(value);
}

}  // namespace tg
