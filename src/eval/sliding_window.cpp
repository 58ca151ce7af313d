#include "eval/sliding_window.h"

#include "eval/eta.h"

namespace tg {

Score sliding_window_score(Gpt& model, const SplitTokens& tokens, const WindowOptions& options,
                           at::Device device, EvalMode mode, Communicator& communicator,
                           const at::Tensor& nll) {
  model.set_fake_quant(false);
  model.cast_weights();
  const auto windows = sliding_windows(tokens.predictions(), options);
  const auto own = share_of_rank(windows, communicator.rank(), communicator.world_size());
  ScoreSums sums(device);
  WindowScorer scorer(model, tokens, options.length, options.stride, device, mode, communicator);
  scorer.save_token_losses(nll);
  const EtaLine eta("sliding window");
  scorer.score(own, sums, std::cref(eta));
  sums.add_other_ranks(communicator);
  const PeerWatch::Scope waiting(communicator.watch());
  return sums.score();
}

}  // namespace tg
