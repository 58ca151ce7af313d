#include "base/escaped.h"

#include <gtest/gtest.h>

#include "base/log.h"

namespace tg {
namespace {

TEST(Shown, EscapesWhatATerminalObeysAndLeavesAllOtherText) {
  const std::string readable = "Grüße, ☃ \U0001F600 שלום naïve — 'a' \"b\" C:\\d";
  EXPECT_EQ(escaped(readable, readable.size()), readable);
  EXPECT_EQ(escaped("\x1b[2J\x07\r\n\t\x7f"), "\\x1b[2J\\x07\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(escaped(std::string_view("\0a", 2)), "\\x00a");
  // C1 has ESC [ as a single character: in UTF-8, or on an 8-bit terminal as one byte.
  EXPECT_EQ(escaped("\u009b2J\x9b"), "\\u009b2J\\x9b");
  EXPECT_EQ(escaped("\u0080\u00a0"), "\\u0080\u00a0");
  EXPECT_EQ(escaped("a\u202egnp.exe\u2066\u200f\u061c\u2028"),
            "a\\u202egnp.exe\\u2066\\u200f\\u061c\\u2028");
  EXPECT_EQ(escaped("\xc3(\xe2\x98"), "\\xc3(\\xe2\\x98");  // not UTF-8; truncated
}

TEST(Shown, EscapingTwiceChangesNothingMore) {
  const auto once = escaped("\x1b\u202e\xff\n");
  EXPECT_EQ(escaped(once), once);
}

TEST(Shown, IsCutBetweenCharacters) {
  EXPECT_EQ(escaped("abcdef", 3), "abc...");
  EXPECT_EQ(escaped("abc", 3), "abc");
  EXPECT_EQ(escaped("a☃b", 2), "a☃...");
}

TEST(Shown, LinesKeepTheirEndsAndTabs) {
  EXPECT_EQ(escaped_lines("a\tb\n\x1b[H\rc\n"), "a\tb\n\\x1b[H\\x0dc\n");
}

TEST(Log, WhateverIsLoggedIsOneLineThatATerminalOnlyShows) {
  const std::string text = "a\x1b]0;title\x07\nERROR exit=0";
  const std::string line = "a\\x1b]0;title\\x07\\x0aERROR exit=0\n";
  testing::internal::CaptureStdout();
  log_line(text);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), line);
  testing::internal::CaptureStderr();
  warn_line(text);
  error_line(65, text);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "WARN rank=0: " + line + "ERROR exit=65 rank=0: " + line);
}

}  // namespace
}  // namespace tg
