// The bad templates as far as a machine without a GPU can see: their manifests are sound, and what is wrong with them
// is found by the compiler only where it should be.
#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "jit/compile.h"
#include "kernel/kernel_key.h"
#include "kernel/template_set.h"
#include "tuner/kernel_builder.h"

namespace kiln::tuner {
namespace {

class BadTemplatesTest : public testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path folder(const char* name) { return std::filesystem::path(KILN_TEST_TEMPLATES) / name; }
  TemplateSet templates{{folder("toy"), folder("bad")}};
  cuda::DeviceInfo gpu = *cache::gpu_profile("h200");

  jit::CompileOutcome compile(const std::string& name) const {
    const TemplatePtr t = templates.find(name);
    const Problem problem =
        complete(*t->op, Problem{.op = "toy", .dims = {{"N", 1 << 20}}, .dtypes = {}, .choices = {}, .alignments = {}});
    EXPECT_EQ(rejection(*t, problem, gpu), "");
    return jit::compile(compile_request(*t, problem, t->manifest.fallback, gpu));
  }
};

TEST_P(BadTemplatesTest, CompilesWithoutAFault) {
  const jit::CompileOutcome outcome = compile(GetParam());
  ASSERT_TRUE(std::holds_alternative<jit::CompiledUnit>(outcome)) << std::get<jit::CompileFailure>(outcome).log;
  const jit::CompiledUnit& unit = std::get<jit::CompiledUnit>(outcome);
  BuiltKernel built;
  built.resources = unit.kernels;
  built.warnings = unit.warnings;
  EXPECT_EQ(built.resource_fault(), "");
}

INSTANTIATE_TEST_SUITE_P(AtRunTime, BadTemplatesTest,
                         testing::Values("bad_crash", "bad_hang", "bad_wrong", "bad_overrun", "bad_unwritten",
                                         "bad_input", "bad_restless", "bad_leak", "toy_unrolled", "toy_simple",
                                         "toy_reference"));

TEST_F(BadTemplatesTest, OneDoesNotCompileAndSaysWhere) {
  const jit::CompileOutcome outcome = compile("bad_compile");
  ASSERT_TRUE(std::holds_alternative<jit::CompileFailure>(outcome));
  EXPECT_NE(std::get<jit::CompileFailure>(outcome).log.find("bad_compile.cuh"), std::string::npos);
}

TEST_F(BadTemplatesTest, OneSpills) {
  const jit::CompileOutcome outcome = compile("bad_spills");
  ASSERT_TRUE(std::holds_alternative<jit::CompiledUnit>(outcome)) << std::get<jit::CompileFailure>(outcome).log;
  BuiltKernel built;
  built.resources = std::get<jit::CompiledUnit>(outcome).kernels;
  EXPECT_NE(built.resource_fault().find("spills"), std::string::npos);
}

}  // namespace
}  // namespace kiln::tuner
