#include "kiln/c_api.h"

#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"
#include "kiln/version.h"

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(CApi, StatusesAreTheErrorCodes) {
  EXPECT_STREQ(kiln_status_name(KILN_OK), "ok");
  for (int code = KILN_INVALID_ARGUMENT; code <= KILN_INTERNAL; ++code) {
    EXPECT_STREQ(kiln_status_name(static_cast<kiln_status>(code)), to_string(static_cast<ErrorCode>(code)));
  }
  EXPECT_STREQ(kiln_status_name(KILN_CACHE), "cache");
  EXPECT_STREQ(kiln_status_name(KILN_NO_DRIVER), "no_driver");
  EXPECT_STREQ(kiln_status_name(static_cast<kiln_status>(99)), "unknown");
  EXPECT_STREQ(kiln_version(), kVersion);
}

TEST(CApi, NullIsRefusedByName) {
  kiln_operation* operation = nullptr;
  const auto refused = [](kiln_status status, const char* name) {
    EXPECT_EQ(status, KILN_INVALID_ARGUMENT);
    EXPECT_THAT(kiln_last_error(), HasSubstr("'" + std::string(name) + "' is null"));
  };
  refused(kiln_runtime_create(0, "", nullptr), "runtime");
  refused(kiln_runtime_load(nullptr, "x.toml"), "runtime");
  refused(kiln_prepare(nullptr, "gemm", "m=1", &operation), "runtime");
  refused(kiln_prepare(nullptr, "gemm", "m=1", nullptr), "operation");
  refused(kiln_prepare_up_to(nullptr, "gemm", "m=1", "M", &operation), "runtime");
  refused(kiln_launch(nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr), "operation");
  refused(kiln_launch_at(nullptr, nullptr, 1, nullptr, 0, nullptr, 0, nullptr), "operation");
  refused(kiln_operation_workspace(nullptr, nullptr), "operation");
  refused(kiln_operation_describe(nullptr, 0, nullptr, 0, nullptr), "operation");
  kiln_runtime_destroy(nullptr);
  kiln_operation_destroy(nullptr);
  EXPECT_EQ(operation, nullptr);
}

TEST(CApi, ADeviceThatIsNoneIsRefused) {
  kiln_runtime* runtime = nullptr;
  EXPECT_EQ(kiln_runtime_create(-2, "", &runtime), KILN_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("device -2"));
  const kiln_status status = kiln_runtime_create(100000, "", &runtime);
  EXPECT_TRUE(status == KILN_NO_DRIVER || status == KILN_NO_DEVICE) << kiln_status_name(status);
  EXPECT_STRNE(kiln_last_error(), "");
  EXPECT_EQ(runtime, nullptr);
}

TEST(CApi, EachThreadHasItsOwnMessage) {
  EXPECT_EQ(kiln_runtime_load(nullptr, nullptr), KILN_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(kiln_last_error(), ""); }).join();
  EXPECT_THAT(kiln_last_error(), HasSubstr("'runtime'"));
}

}  // namespace
}  // namespace kiln
