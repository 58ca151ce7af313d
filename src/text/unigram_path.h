#pragma once
// Segments a long text with a SentencePiece unigram model, in memory that does not grow with the
// text: finds the pieces with the largest sum of scores. The result is bitwise the library's: the
// sum is carried from part to part in the same floats, whose rounding decides between near ties.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tg {

struct UnigramPiece {
  std::string text;  // empty: not a piece of text, such as a control symbol
  float score = 0;
  bool user_defined = false;  // preferred over all others
};

// Trie of the pieces.
class UnigramPieces {
 public:
  explicit UnigramPieces(const std::vector<UnigramPiece>& pieces);

 private:
  friend class UnigramPath;
  struct Node {
    int id = -1;  // piece that ends at this node; -1: none
    float score = 0;
    bool user_defined = false;
  };
  static std::uint64_t child_key(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }

  std::vector<Node> nodes_;                                    // the first is the root
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // by child_key()
  std::size_t longest_ = 4;  // bytes of the longest piece, at least 4: a character
  float unknown_score_ = 0, largest_score_ = 0;
};

class UnigramPath {
 public:
  static constexpr int unknown = -1;
  // Called for each step of the path: a piece, or a character without a piece (`unknown`).
  using Visit = std::function<void(int id, std::string_view text)>;

  // `pieces` must outlive this object.
  explicit UnigramPath(const UnigramPieces& pieces) : pieces_(pieces), ends_(1) {}

  // Appends normalized text of whole characters. Visits, in order, the steps up to the last
  // position that no piece crosses, since the best path passes through it whatever follows; all
  // steps with the last text.
  void add(std::string_view normalised, bool is_last, const Visit& visit);

 private:
  // Best path to a position.
  struct End {
    int id = unknown;         // last step
    std::int64_t begin = -1;  // start of the last step; -1: no path yet
    float score = 0;
  };

  void extend();
  void reach(std::size_t end, int id, double score);
  void visit_up_to(std::size_t end, const Visit& visit);

  const UnigramPieces& pieces_;
  std::string text_;          // not yet visited
  std::vector<End> ends_;     // [text_.size() + 1]
  std::size_t at_ = 0;        // paths are extended from this position
  std::size_t furthest_ = 0;  // the furthest position reached
};

// Splits a text into parts of `size` bytes or slightly more. Each cut is between two letters,
// digits or marks of frequent scripts that no rule of Unicode's NFKC joins, so that the
// concatenated normalizations of the parts are the normalization of the text. No cut is inside an
// occurrence of a string of `whole`.
std::vector<std::string_view> split_between_letters(std::string_view text, std::size_t size,
                                                    const std::vector<std::string>& whole);

}  // namespace tg
