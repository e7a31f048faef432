#include "base/embedded.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(EmbeddedFiles, AreSortedByPathWithoutDoubles) {
  const auto files = embedded_files();
  EXPECT_EQ(std::adjacent_find(files.begin(), files.end(),
                               [](const EmbeddedFile& a, const EmbeddedFile& b) { return a.path >= b.path; }),
            files.end());
}

TEST(EmbeddedFiles, HoldTemplatesAndProfilesWhole) {
  const auto find = [](std::string_view path) -> std::string_view {
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.path == path) return file.text;
    }
    return {};
  };
  EXPECT_TRUE(find("presets/gpus.toml").starts_with("# Known GPUs"));
  EXPECT_TRUE(find("presets/gpus.toml").ends_with("power_limit_watts = 575\n"));
  EXPECT_TRUE(find("templates/ops/gemm.toml").starts_with("name = \"gemm\"\n"));
  // The op's summary has characters beyond ASCII.
  EXPECT_NE(find("templates/ops/gemm.toml").find("alpha · A[M,K]"), std::string_view::npos);
}

}  // namespace
}  // namespace kiln
