#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "files/little_endian.h"
#include "weights/pickle/pickle.h"
#include "weights/pickle/pickle_nodes.h"
#include "weights/tensors/dtype_names.h"

namespace tg {
namespace pickle {
namespace {

class Machine {
 public:
  explicit Machine(std::string_view pickle) : pickle_(pickle) {}

  size_t position() const { return at_; }

  // Returns the pickle's value, which lives as long as this object. Throws Malformed.
  const Node& run() {
    if (take(2) != "\x80\x02") throw Malformed("expected pickle protocol 2 (torch.save's default)");
    for (size_t count = 0; count < kMaxOperations; ++count) {
      const char opcode = take(1)[0];
      if (opcode == '.') {
        if (stack_.size() != 1 || !marks_.empty()) throw Malformed("expected one value at the end");
        if (at_ != pickle_.size()) throw Malformed("bytes after the end");
        return *stack_[0];
      }
      step(opcode);
    }
    throw Malformed(fmt::format("more than {} operations", kMaxOperations));
  }

 private:
  void step(char opcode) {
    switch (opcode) {
      case 'N':
        return push({});
      case '\x88':
      case '\x89':
        return push({.kind = Kind::boolean, .integer = opcode == '\x88'});
      case 'K':
        return push_integer(number<uint8_t>());
      case 'M':
        return push_integer(number<uint16_t>());
      case 'J':
        return push_integer(number<int32_t>());
      case '\x8a':
        return push_long();
      case 'G':
        return push({.kind = Kind::real,
                     .real = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()))});
      case 'X':
        return push({.kind = Kind::text, .text = take(number<uint32_t>())});
      case 'c':
        return push_global();
      case '(':
        return marks_.push_back(stack_.size());
      case ')':
        return push({.kind = Kind::tuple});
      case '\x85':
      case '\x86':
      case '\x87':
        return push_tuple(pop(static_cast<size_t>(opcode - '\x84')));
      case 't':
        return push_tuple(pop_to_mark());
      case ']':
        return push({.kind = Kind::list});
      case '}':
        return push({.kind = Kind::dict});
      case 'a':
        return extend(Kind::list, pop(1));
      case 'e':
        return extend(Kind::list, pop_to_mark());
      case 's':
        return extend(Kind::dict, pop(2));
      case 'u':
        return extend(Kind::dict, pop_to_mark());
      case 'q':
        return remember(number<uint8_t>());
      case 'r':
        return remember(number<uint32_t>());
      case 'h':
        return recall(number<uint8_t>());
      case 'j':
        return recall(number<uint32_t>());
      case 'Q':
        return push_storage(*pop(1)[0]);
      case 'R':
      case '\x81':  // cls.__new__(cls, *args)
        return call(opcode);
      case 'b':
        return ignore_attributes();
      default:
        throw Malformed(fmt::format("opcode 0x{:02x} is none of those that torch.save writes",
                                    static_cast<unsigned char>(opcode)));
    }
  }

  // Consumes bytes of the pickle. Lengths are checked before anything is allocated for them.
  std::string_view take(size_t count) {
    if (count > pickle_.size() - at_)
      throw Malformed(fmt::format("expected {} more bytes, found {}", count, pickle_.size() - at_));
    at_ += count;
    return pickle_.substr(at_ - count, count);
  }
  template <typename T>
  T number() {
    return number_at<T>(take(sizeof(T)));
  }
  std::string_view line() {
    const size_t end = pickle_.find('\n', at_);
    if (end == std::string_view::npos) throw Malformed("a name without end");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  // Stack operations; nothing below the last mark may be popped.
  void push_node(Node& node) {
    if (stack_.size() >= kMaxValues) throw Malformed("the stack is too deep");
    stack_.push_back(&node);
  }
  void push(Node node) {
    if (arena_.size() >= kMaxValues)
      throw Malformed(fmt::format("more than {} values", kMaxValues));
    push_node(arena_.emplace_back(std::move(node)));
  }
  void push_integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_tuple(std::vector<const Node*> items) {
    push({.kind = Kind::tuple, .items = std::move(items)});
  }
  Node& top() {
    if (stack_.size() <= floor()) throw Malformed("the stack is empty");
    return *stack_.back();
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<const Node*> pop(size_t count) {
    if (stack_.size() - floor() < count) throw Malformed("the stack is empty");
    std::vector<const Node*> items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<const Node*> pop_to_mark() {
    if (marks_.empty()) throw Malformed("a mark is missing");
    auto items = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  void extend(Kind kind, const std::vector<const Node*>& items) {
    Node& container = top();
    if (container.kind == Kind::opaque) return;
    if (container.kind != kind || (kind == Kind::dict && items.size() % 2 != 0))
      throw Malformed(
          fmt::format("{} items added to a {}", items.size(), kind_name(container.kind)));
    container.items.insert(container.items.end(), items.begin(), items.end());
  }
  void remember(uint32_t index) { memo_.insert_or_assign(index, &top()); }
  void recall(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) throw Malformed(fmt::format("nothing is stored as {}", index));
    push_node(*found->second);
  }

  void push_long() {
    const std::string_view bytes = take(number<uint8_t>());
    if (bytes.size() > 8)
      throw Malformed(fmt::format("an int of {} bytes, expected 8", bytes.size()));
    // Little-endian two's complement of any length: the last byte has the sign.
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push_integer(static_cast<int64_t>(value));
  }
  void push_global() {
    const std::string_view module = line(), name = line();
    Node node{.kind = Kind::global};
    const auto* const names = find_dtype(&DtypeNames::storage, name);
    if (module == "torch" && names) {
      node.global = Global::storage;
      node.dtype = names->dtype;
    } else if (module == "collections" && name == "OrderedDict") {
      node.global = Global::ordered_dict;
    } else if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
      node.global = Global::rebuild_tensor;
    } else if (module == "torch._utils" && name == "_rebuild_parameter") {
      node.global = Global::rebuild_parameter;
    } else {
      node.kind = Kind::opaque;
      node.text = {module.data(), static_cast<size_t>(name.data() + name.size() - module.data())};
    }
    push(std::move(node));
  }
  // ('storage', torch.FloatStorage, key, device, numel)
  void push_storage(const Node& id) {
    if (id.kind != Kind::tuple || id.items.size() != 5 || id.items[0]->kind != Kind::text ||
        id.items[0]->text != "storage")
      throw Malformed("a persistent id that names no storage");
    const Node &type = *id.items[1], &key = *id.items[2], &numel = *id.items[4];
    if (type.kind == Kind::opaque) return push(type);
    if (type.kind != Kind::global || type.global != Global::storage || key.kind != Kind::text ||
        numel.kind != Kind::integer)
      throw Malformed("a persistent id that names no storage");
    push({.kind = Kind::storage, .dtype = type.dtype, .integer = numel.integer, .text = key.text});
  }
  void call(char opcode) {
    const auto call = pop(2);
    const Node& function = *call[0];
    const auto& args = call[1]->items;
    if (function.kind == Kind::opaque) return push({.kind = Kind::opaque, .text = function.text});
    if (function.kind != Kind::global || call[1]->kind != Kind::tuple || opcode != 'R')
      throw Malformed(fmt::format("a call of a {}", kind_name(function.kind)));
    if (function.global == Global::ordered_dict && args.empty()) {
      push({.kind = Kind::dict});
    } else if (function.global == Global::rebuild_tensor &&
               (args.size() == 6 || args.size() == 7)) {  // bounds the copied arguments
      push({.kind = Kind::tensor, .items = args});
    } else if (function.global == Global::rebuild_parameter && args.size() == 3 &&
               args[0]->kind == Kind::tensor) {
      push({.kind = Kind::tensor, .items = args[0]->items});
    } else {
      throw Malformed("a call with arguments that torch.save does not write");
    }
  }
  // Ignores the attribute _metadata (version numbers) that nn.Module.state_dict sets on its
  // OrderedDict.
  void ignore_attributes() {
    const bool dict = pop(1)[0]->kind == Kind::dict;
    if (top().kind != Kind::opaque && !(dict && top().kind == Kind::dict))
      throw Malformed("attributes on something that is no dict");
  }

  std::string_view pickle_;
  size_t at_ = 0;
  Arena arena_;
  std::vector<Node*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Node*> memo_;
};

}  // namespace
}  // namespace pickle

namespace {

template <class Result>
Result read_with(Result (*read)(const pickle::Node&, const StorageLoader&), std::string_view pickle,
                 const std::string& file, const StorageLoader& load) {
  pickle::Machine machine(pickle);
  try {
    return read(machine.run(), load);
  } catch (const pickle::Malformed& malformed) {
    fail(ExitCode::bad_data,
         "{}: expected a plain dict as torch.save writes it; data.pkl at byte {}: {}", file,
         machine.position(), malformed.what());
  }
}

}  // namespace

PickleValue read_pickle(std::string_view pickle, const std::string& file,
                        const StorageLoader& load) {
  return read_with(pickle::tree_of, pickle, file, load);
}

StateDict read_state_dict(std::string_view pickle, const std::string& file,
                          const StorageLoader& load) {
  return read_with(pickle::state_dict_of, pickle, file, load);
}

}  // namespace tg
