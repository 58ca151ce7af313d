#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/parse.h"

namespace tg {

inline ParseResult parse(const std::vector<std::string>& words,
                         const std::vector<std::string>& environment = {},
                         decltype(CommandInputs::set_recipe_defaults) set_defaults = nullptr) {
  std::vector<const char*> argv = {"train_gpt"};
  std::vector<const char*> envp;
  for (const auto& word : words) argv.push_back(word.c_str());
  for (const auto& variable : environment) envp.push_back(variable.c_str());
  envp.push_back(nullptr);
  return parse_settings(static_cast<int>(argv.size()), argv.data(), envp.data(),
                        {.set_recipe_defaults = set_defaults});
}

// What `call` fails with: "64 message"; empty when it does not.
template <class F>
std::string failure_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.exit_code())) + " " + error.what();
  }
  return "";
}

// Ctest may run several test programs at once, so the test's own name is part of the path.
inline std::string write_file(const std::string& name, const std::string& text) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto folder =
      std::filesystem::path(testing::TempDir()) / test->test_suite_name() / test->name();
  std::filesystem::create_directories(folder);
  const auto path = folder / name;
  std::ofstream(path) << text;
  return path.string();
}

}  // namespace tg
