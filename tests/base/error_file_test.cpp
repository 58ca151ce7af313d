#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/process_exit.h"

namespace tg {
namespace {

class ErrorFileTest : public testing::Test {
 protected:
  ErrorFileTest() { set_error_file(path_); }
  ~ErrorFileTest() override {
    set_error_file("");
    std::filesystem::remove(path_);
  }

  nlohmann::json message() const {
    std::ifstream file(path_);
    return nlohmann::json::parse(file).at("message");
  }
  // Seconds from now to the time in the file.
  double delay() const {
    const std::string text = message()["extraInfo"]["timestamp"];
    return std::difftime(std::stol(text), std::time(nullptr));
  }

  const std::string path_ = testing::TempDir() + "error-" + std::to_string(::getpid()) + ".json";
};

TEST_F(ErrorFileTest, HasTheLineOfTheFirstError) {
  error_line(static_cast<int>(ExitCode::bad_data), "\"a\\b\".bin is cut short");
  error_line(static_cast<int>(ExitCode::internal), "what comes of it");
  EXPECT_EQ(message()["message"], "ERROR exit=65 rank=0: \"a\\b\".bin is cut short");
  EXPECT_NEAR(delay(), 0, 2);
}

TEST_F(ErrorFileTest, WhoOnlyLostAPeerIsLaterThanWhoFailed) {
  error_line(static_cast<int>(ExitCode::unavailable), "a peer was lost");
  EXPECT_NEAR(delay(), 3, 2);
}

TEST_F(ErrorFileTest, TakesAnyBytes) {
  error_line(static_cast<int>(ExitCode::missing_input), "no \xff.bin");
  EXPECT_EQ(message()["message"], "ERROR exit=66 rank=0: no \\xff.bin");
}

TEST_F(ErrorFileTest, AFolderThatIsGoneIsNoOtherError) {
  set_error_file(path_ + "/none/error.json");
  error_line(static_cast<int>(ExitCode::usage), "bad");
}

}  // namespace
}  // namespace tg
