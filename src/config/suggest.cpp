#include "config/suggest.h"

#include <algorithm>
#include <cassert>
#include <cctype>

#include "base/is_in.h"

namespace tg {
namespace {

constexpr std::size_t kLongestName = 100;  // the distance's cost is quadratic
constexpr std::size_t kMostSuggestions = 4;

struct Synonyms {
  std::vector<std::string> names, settings;
};

// Names of these settings in other trainers.
const std::vector<Synonyms> kSynonyms = {
    {{"lr", "learning_rate", "max_lr"}, {"matrix_lr", "scalar_lr", "tied_embed_lr", "head_lr"}},
    {{"batch_size", "global_batch_size", "total_batch_size"}, {"train_batch_tokens"}},
    {{"gradient_accumulation_steps", "grad_accumulation", "micro_batch_size"},
     {"grad_accum_steps"}},
    {{"epochs", "num_epochs", "num_train_epochs", "steps", "max_steps", "max_iters",
      "num_iterations"},
     {"iterations"}},
    {{"block_size", "context_length", "seq_len", "seq_length", "sequence_length", "max_length"},
     {"train_seq_len"}},
    {{"gpu", "cuda", "accelerator"}, {"device"}},
    {{"weight_decay", "wd"}, {"muon_wd", "adam_wd"}},
    {{"random_seed", "manual_seed"}, {"seed"}},
    {{"n_layer", "layers", "depth"}, {"num_layers"}},
    {{"n_embd", "hidden_size", "d_model", "width"}, {"model_dim"}},
    {{"dtype", "precision", "mixed_precision", "amp", "bf16", "fp16"}, {"compute_dtype"}},
};

// MATRIX_LR, matrix-lr → matrix_lr
std::string member_name(std::string_view name) {
  std::string member(name);
  std::ranges::transform(member, member.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::tolower(c));
  });
  return member;
}

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const auto end = std::min(name.find('_'), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

std::vector<std::string> names_with_words(std::string_view wanted,
                                          const std::vector<std::string>& names) {
  const auto wanted_words = words_of(wanted);
  std::vector<std::string> found;
  for (const auto& name : names) {
    const auto words = words_of(name);
    const bool has_all = std::ranges::all_of(
        wanted_words, [&](std::string_view word) { return is_in(words, word); });
    if (!wanted_words.empty() && has_all && found.size() < kMostSuggestions) found.push_back(name);
  }
  return found;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // cost[i][j]: from the first i letters of a to the first j of b.
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replaced = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

const std::string& nearest_name(std::string_view wrong, const std::vector<std::string>& names) {
  assert(!names.empty());
  wrong = wrong.substr(0, kLongestName);
  return *std::ranges::min_element(
      names, {}, [&](const std::string& name) { return edit_distance(wrong, name); });
}

std::vector<std::string> meant_settings(std::string_view wrong,
                                        const std::vector<std::string>& members) {
  assert(!members.empty());
  const auto name = member_name(wrong.substr(0, kLongestName));
  std::vector<std::string> known = members;
  for (const auto& row : kSynonyms) known.insert(known.end(), row.names.begin(), row.names.end());
  const auto& nearest = nearest_name(name, known);
  const auto slips = edit_distance(name, nearest), length = static_cast<int>(name.size());
  // A slip of a letter in five is more likely than a name of other words.
  if (5 * slips > length) {
    if (auto found = names_with_words(name, members); !found.empty()) return found;
  }
  if (2 * slips > length) return {};
  for (const auto& [names, settings] : kSynonyms) {
    if (is_in(names, nearest)) return settings;
  }
  return {nearest};
}

}  // namespace tg
