#include "kernel/config_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConfigScopeTest : public testing::Test {
 protected:
  ConfigScopeTest() {
    draft.params = "T = [32, 64]\nU = [1, 2]";
    draft.tables = R"toml([let]
blocks = "ceil_div(M, tile)"
tile = "T * U"
rows = "M * 2"
on_device = "sm_count + T"
[require]
"tile <= 128" = "small tiles"
"rows > 0" = "some rows"
)toml";
    draft.fallback = "T = 32\nU = 1";
    t = draft.build();
  }
  ManifestDraft draft;
  std::shared_ptr<KernelTemplate> t;
};

TEST_F(ConfigScopeTest, BindsProblemDeviceParametersAndLets) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  bound.set({{"T", 64}, {"U", 2}});
  EXPECT_EQ(bound.scope().get("M"), 1000);
  EXPECT_EQ(bound.scope().get("sm_count"), 100);
  EXPECT_EQ(bound.scope().get("cc"), 90);
  EXPECT_EQ(bound.scope().get("dram_gbps"), 2000);
  EXPECT_EQ(bound.scope().get("T"), 64);
  EXPECT_EQ(bound.scope().get("tile"), 128);
  EXPECT_EQ(bound.scope().get("blocks"), 8);
  EXPECT_EQ(bound.scope().get("on_device"), 164);
}

TEST_F(ConfigScopeTest, SettingAgainForgetsTheConfigurationBefore) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  bound.set({{"T", 64}, {"U", 2}});
  bound.set({{"T", 32}, {"U", 1}});
  EXPECT_EQ(bound.scope().get("tile"), 32);
  EXPECT_EQ(bound.scope().get("blocks"), 32);
}

TEST_F(ConfigScopeTest, TakesValuesOutsideTheManifestsLists) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  bound.set({{"T", 48}, {"U", 1}});
  EXPECT_EQ(bound.scope().get("blocks"), 21);
}

TEST_F(ConfigScopeTest, AMissingOrUnknownParameterIsNamed) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           bound.set({{"T", 64}});
                         }),
              AllOf(HasSubstr("'U'"), HasSubstr("mix_fast")));
  EXPECT_THAT(message_of(ErrorCode::invalid_argument,
                         [&] {
                           bound.set({{"T", 64}, {"U", 1}, {"tile", 1}});
                         }),
              AllOf(HasSubstr("no parameter 'tile'"), HasSubstr("it has T, U")));
}

TEST_F(ConfigScopeTest, AValueTooLargeToComputeWithIsRefused) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  EXPECT_THAT(message_of(ErrorCode::invalid_expression,
                         [&] {
                           bound.set({{"T", std::int64_t{1} << 60}, {"U", 1}});
                         }),
              AllOf(HasSubstr("'T'"), HasSubstr("2^53")));
}

TEST_F(ConfigScopeTest, ALevelIsTheLastParameterReadThroughAnyLet) {
  ConfigScope bound(*t, mix_problem(1000, 4), sample_device());
  std::map<std::string, int> levels;
  for (std::size_t i = 0; i < bound.lets().size(); ++i) levels[t->manifest.lets[i].name] = bound.lets()[i].level;
  EXPECT_EQ(levels, (std::map<std::string, int>{{"blocks", 1}, {"tile", 1}, {"rows", -1}, {"on_device", 0}}));
  ASSERT_EQ(bound.constraints().size(), 2U);
  EXPECT_EQ(bound.constraints()[0].level, 1);
  EXPECT_EQ(bound.constraints()[1].level, -1);
}

}  // namespace
}  // namespace kiln
