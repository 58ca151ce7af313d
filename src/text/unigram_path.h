#pragma once
// The segmentation of a long text by a SentencePiece unigram model, in memory that does not grow
// with the text: the pieces whose scores have the largest sum. It is the library's, bit for bit:
// the sum is carried from part to part in the same floats, whose rounding decides between near
// ties.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tg {

struct UnigramPiece {
  std::string text;  // empty: no piece of text, such as a control symbol
  float score = 0;
  bool user_defined = false;  // preferred to all others
};

// A trie of the pieces.
class UnigramPieces {
 public:
  explicit UnigramPieces(const std::vector<UnigramPiece>& pieces);

 private:
  friend class UnigramPath;
  struct Node {
    int id = -1;  // of the piece that ends here; -1: none
    float score = 0;
    bool user_defined = false;
  };
  static std::uint64_t child_key(std::uint32_t node, char byte);

  std::vector<Node> nodes_;                                    // the first is the root
  std::unordered_map<std::uint64_t, std::uint32_t> children_;  // by child_key()
  std::size_t longest_ = 4;  // bytes of a piece, at least those of a character
  float unknown_score_ = 0, largest_score_ = 0;
};

class UnigramPath {
 public:
  static constexpr int unknown = -1;
  // A step of the path: a piece, or a character that no piece has alone (`unknown`).
  using Visit = std::function<void(int id, std::string_view text)>;

  // `pieces` must outlive it.
  explicit UnigramPath(const UnigramPieces& pieces) : pieces_(pieces), ends_(1) {}

  // Appends whole characters of normalised text; visits, in order, the steps up to the last
  // position that no piece crosses: the path goes through it whatever follows. With the last text,
  // all.
  void add(std::string_view normalised, bool is_last, const Visit& visit);

 private:
  // The best path to a position.
  struct End {
    int id = unknown;  // of its last step, which begins there; -1: no path yet
    std::int64_t begin = -1;
    float score = 0;
  };

  void extend();
  void reach(std::size_t end, int id, double score);
  void visit_up_to(std::size_t end, const Visit& visit);

  const UnigramPieces& pieces_;
  std::string text_;          // not yet visited
  std::vector<End> ends_;     // [text_.size() + 1]
  std::size_t at_ = 0;        // paths go on from here
  std::size_t furthest_ = 0;  // to here
};

}  // namespace tg
