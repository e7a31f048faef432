#include "tuner/kernel_builder.h"

#include <gtest/gtest.h>

#include "tests/tuner/fictional_device.h"

namespace kiln::tuner {
namespace {

class KernelBuilderTest : public testing::Test {
 protected:
  FictionalLab lab;
  TemplatePtr t = lab.templates.find("toy_unrolled");
  Problem problem = complete(*t->op, lab.problem);
  Config config = t->manifest.fallback;

  KernelBuilder builder() { return {lab.compiler, lab.store, "13.0", lab.gpu}; }
  static bool never() { return false; }
};

TEST_F(KernelBuilderTest, CompilesOnceAndStoresWhatItMade) {
  KernelBuilder first = builder();
  first.prefetch(*t, problem, config);
  const auto built = first.get(*t, problem, config, never);
  ASSERT_TRUE(built && std::holds_alternative<BuiltKernel>(*built));
  EXPECT_EQ(std::get<BuiltKernel>(*built).registers(), 40);
  first.get(*t, problem, config, never);
  EXPECT_EQ(lab.compiler.compiles, 1);

  KernelBuilder later = builder();
  const auto stored = later.get(*t, problem, config, never);
  ASSERT_TRUE(stored && std::holds_alternative<BuiltKernel>(*stored));
  EXPECT_EQ(std::get<BuiltKernel>(*stored).code.symbols, std::get<BuiltKernel>(*built).code.symbols);
  EXPECT_EQ(std::get<BuiltKernel>(*stored).registers(), 40);
  EXPECT_EQ(lab.compiler.compiles, 1);
}

TEST_F(KernelBuilderTest, AnotherNvrtcCompilesAgain) {
  builder().get(*t, problem, config, never);
  KernelBuilder upgraded(lab.compiler, lab.store, "13.1", lab.gpu);
  upgraded.get(*t, problem, config, never);
  EXPECT_EQ(lab.compiler.compiles, 2);
}

TEST_F(KernelBuilderTest, AFailureCarriesTheLogAndIsNotStored) {
  lab.compiler.refuses = {"BLOCK"};
  for (int attempt = 1; attempt <= 2; ++attempt) {
    const auto outcome = builder().get(*t, problem, config, never);
    ASSERT_TRUE(outcome && std::holds_alternative<Failure>(*outcome));
    EXPECT_EQ(std::get<Failure>(*outcome).kind, FailureKind::compile);
    EXPECT_FALSE(std::get<Failure>(*outcome).log.empty());
    EXPECT_EQ(lab.compiler.compiles, attempt);
  }
}

TEST(ResourcesTest, SurviveTheStoreAndForeignTextIsNone) {
  jit::KernelResources kernel;
  kernel.name_expression = "k<C>";
  kernel.registers = 168;
  kernel.spill_load_bytes = 8;
  BuiltKernel built;
  resources_from_text(resources_to_text({kernel}, {"ptxas info: (C7510) wgmma serialised"}), &built);
  ASSERT_EQ(built.resources.size(), 1U);
  EXPECT_EQ(built.resources[0].registers, 168);
  EXPECT_EQ(built.spill_bytes(), 8);
  EXPECT_EQ(built.warnings.size(), 1U);
  for (const char* text : {"", "null", "{}", "[1]", "[{\"registers\": \"many\"}]", "[{"}) {
    BuiltKernel other;
    resources_from_text(text, &other);
    EXPECT_EQ(other.registers(), 0) << text;
  }
}

TEST(ResourcesTest, SpillsAndSerialisedWgmmaAreFaults) {
  BuiltKernel built;
  EXPECT_EQ(built.resource_fault(), "");
  built.warnings = {"ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"};
  EXPECT_NE(built.resource_fault(), "");
}

}  // namespace
}  // namespace kiln::tuner
