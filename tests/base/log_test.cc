#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "tests/message_of.h"

namespace kiln {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override { set_log_level("warning"); }
};

TEST_F(Log, AModuleHasOneLogger) {
  EXPECT_EQ(log("log_test_one"), log("log_test_one"));
  EXPECT_NE(log("log_test_one"), log("log_test_two"));
}

TEST_F(Log, TheLevelReachesLoggersMadeBeforeAndAfter) {
  const auto before = log("log_test_before");
  set_log_level("debug");
  EXPECT_EQ(before->level(), spdlog::level::debug);
  EXPECT_EQ(log("log_test_after")->level(), spdlog::level::debug);
  set_log_level("off");
  EXPECT_EQ(before->level(), spdlog::level::off);
}

TEST_F(Log, EveryLevelOfTheOptionsIsKnown) {
  for (const char* level : {"trace", "debug", "info", "warning", "error", "critical", "off"}) {
    EXPECT_NO_THROW(set_log_level(level)) << level;
  }
}

TEST_F(Log, AnotherWordIsRefusedAndChangesNothing) {
  set_log_level("info");
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [] { set_log_level("loud"); }),
              testing::AllOf(testing::HasSubstr("'loud'"), testing::HasSubstr("trace, debug, info")));
  EXPECT_EQ(log("log_test_one")->level(), spdlog::level::info);
}

TEST_F(Log, TheApplicationsOwnLoggersKeepTheirLevel) {
  const auto own = spdlog::stderr_color_mt("application_of_log_test");
  own->set_level(spdlog::level::err);
  set_log_level("trace");
  EXPECT_EQ(own->level(), spdlog::level::err);
  spdlog::drop("application_of_log_test");
}

}  // namespace
}  // namespace kiln
