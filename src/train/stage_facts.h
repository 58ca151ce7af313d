#pragma once
#include <cstdint>

#include "model/plan.h"
#include "run_log/start_events.h"

namespace tg {

// A stage of the plan as events name it.
inline StageFacts stage_facts(const Plan& plan, std::int64_t stage) {
  const auto& of = plan.stages[static_cast<std::size_t>(stage)];
  return {stage, of.title, of.encoder, of.decoder, of.log_name};
}

}  // namespace tg
