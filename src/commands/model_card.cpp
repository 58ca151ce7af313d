#include "commands/model_card.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"
#include "commands/model_file.h"
#include "config/resolved.h"
#include "config/settings.h"
#include "config/types/text.h"
#include "run_log/metrics_reader.h"

namespace tg {
namespace {

using nlohmann::json;

std::string score_row(const std::string& name, const json& event) {
  const auto number = [&](const char* field) {
    const auto found = event.find(field);
    return found != event.end() && found->is_number() ? fmt::format("{:.4f}", found->get<double>())
                                                      : std::string("");
  };
  return fmt::format("| {} | {} | {} |\n", name, number("val_loss"), number("val_bpb"));
}

// Returns a table's rows: the last validation at the model's step, and the final scores.
std::string score_rows(const std::string& metrics, std::int64_t step) {
  std::string validation, finals;
  try {
    MetricsReader events(metrics);
    while (const auto event = events.next()) {
      const auto& kind = event->at("event");
      if (kind == "val" && event->at("step") == step) {
        validation = score_row(fmt::format("validation after step {}", step), *event);
      } else if (kind == "final") {
        finals += score_row(event->at("name").get<std::string>(), *event);
      } else if (kind == "resume") {
        finals.clear();  // an earlier end of the run
      }
    }
  } catch (const Error&) {  // no metrics, or damaged ones
    return "";
  }
  return validation + finals;
}

// Returns the settings of the run's config.json by name; empty without that file.
json run_settings(const ModelPath& model) {
  const auto config = read_config(file_of_run(model, "config.json"));
  const bool known = config && config->is_object() && config->contains("settings");
  return known ? config->at("settings") : json::object();
}

std::string text_setting(const json& settings, const char* name) {
  const auto found = settings.find(name);
  return found != settings.end() && found->is_string() ? found->get<std::string>() : "";
}

// Returns "on fineweb10B_sp1024, for 5000 steps of 786432 tokens, 3932160000 in all".
std::string training_text(const json& settings, std::int64_t step) {
  const std::filesystem::path path(text_setting(settings, "DATA_PATH"));
  const std::string data = path.has_filename() ? path.filename() : path.parent_path().filename();
  auto text = (data.empty() ? "" : "on " + data + ", ") + fmt::format("for {} steps", step);
  const auto tokens = settings.find("TRAIN_BATCH_TOKENS");
  if (tokens == settings.end() || !tokens->is_number_integer()) return text;
  const auto per_step = tokens->get<std::int64_t>();
  return text + fmt::format(" of {} tokens, {} in all", per_step, step * per_step);
}

bool is_path(std::string_view name) {
  bool path = false;
  for_each_setting(Settings(), [&](const auto& setting) {
    path |= setting.role.is_path && env_name(setting.name) == name;
  });
  return path;
}

// Returns NAME=value lines of the settings that differ from the defaults, without paths.
std::string changed_settings(const json& settings) {
  const auto text = changed_settings_text({{"settings", settings}}).value_or("");
  std::string lines;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = text.find('\n', begin) + 1;
    const auto line = std::string_view(text).substr(begin, end - begin);
    const bool private_line =
        is_path(line.substr(0, line.find('='))) || line.find('/') < line.size();
    if (!private_line) lines += line;
  }
  return lines;
}

constexpr const char* kHead = R"(---
library_name: transformers
pipeline_tag: text-generation
tags: [train_gpt]
# license: choose one of https://huggingface.co/docs/hub/repositories-licenses
---

)";

constexpr const char* kUse = R"(## Use

```python
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("DIR", trust_remote_code=True)
```

)";

constexpr const char* kTokenizer =
    R"(The tokenizer is `tokenizer.model`, which the package sentencepiece reads; a document begins with its BOS.
)";

constexpr const char* kEvaluation =
    R"(`AutoTokenizer.from_pretrained("DIR")` reads the tokenizer. Evaluation with
[lm-evaluation-harness](https://github.com/EleutherAI/lm-evaluation-harness):

```
lm_eval --model hf --model_args pretrained=DIR,trust_remote_code=True,prefix_token_id=BOS_ID --tasks hellaswag,lambada_openai
```
)";

}  // namespace

std::string model_card(const ModelFacts& facts, const ModelPath& model) {
  const auto settings = run_settings(model);
  const auto& record = facts.record;
  const auto name = text_setting(settings, "RUN_ID");
  auto text = fmt::format(
      "{}# {}\n\nA language model of {} parameters, trained by train_gpt (RECIPE={}) {}.\n\n",
      kHead, name.empty() ? "GPT" : name, facts.parameters, record.recipe,
      training_text(settings, record.step));
  const auto rows = score_rows(file_of_run(model, "metrics.jsonl"), record.step);
  if (!rows.empty())
    text +=
        "## Scores\n\n| score | nats per token | bits per byte |\n|---|---|---|\n" + rows + "\n";
  text += kUse;
  text += facts.auto_tokenizer ? replaced(kEvaluation, "BOS_ID", fmt::format("{}", facts.bos_id))
                               : kTokenizer;
  const auto changed = changed_settings(settings);
  if (!changed.empty())
    text += "\n## Settings that differ from train_gpt's defaults\n\n```\n" + changed + "```\n";
  return text + "\n## Licence\n\nNot stated yet.\n";
}

}  // namespace tg
