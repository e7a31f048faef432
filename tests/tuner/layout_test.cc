#include "tuner/measure/layout.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernel/template_set.h"
#include "kiln/error.h"
#include "tuner/measure/check_kernels.h"

namespace kiln::tuner {
namespace {

class LayoutTest : public testing::Test {
 protected:
  TemplateSet templates;
  std::shared_ptr<const OpSpec> op = templates.find_op("gemm");

  Problem gemm(DType a, DType d, std::map<std::string, std::string> choices = {}) const {
    Problem problem{.op = "gemm",
                    .dims = {{"M", 3}, {"N", 6}, {"K", 7}},
                    .dtypes = {{"a", a}, {"d", d}},
                    .choices = std::move(choices),
                    .alignments = {}};
    return complete(*op, problem);
  }
  const OperandSpec& operand(const char* name) const { return *op->find_operand(name); }
};

TEST_F(LayoutTest, OperandsFollowTheOp) {
  const std::vector<OperandLayout> layouts = operand_layouts(*op, gemm(bf16, f32));
  ASSERT_EQ(layouts.size(), 5U);
  EXPECT_EQ(layouts[0].elements, 21);
  EXPECT_EQ(layouts[0].bytes, 42);
  EXPECT_EQ(layouts[2].name, "d");
  EXPECT_EQ(layouts[2].role, Role::inout);
  EXPECT_EQ(layouts[2].bytes, 72);
  EXPECT_EQ(set_bytes(layouts), 42 + 84 + 72);
  EXPECT_FALSE(computes_nothing(layouts));
}

TEST_F(LayoutTest, TheReferenceKeepsItsResultInHigherPrecision) {
  EXPECT_EQ(reference_problem(*op, gemm(bf16, bf16)).dtypes.at("d"), f32);
}

TEST_F(LayoutTest, TheResultOfGemmIsPoisonedOnlyWhereBetaIsZero) {
  const OperandSpec& d = *op->find_operand("d");
  const auto cases = check_cases(*op, gemm(bf16, bf16));
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_TRUE(starts_poisoned(d, cases[0]));
  EXPECT_FALSE(starts_poisoned(d, cases[1]));
  EXPECT_FALSE(starts_poisoned(d, {}));
}

TEST(StartsPoisoned, WhereTheOpSaysThatTheOperandIsNotRead) {
  OperandSpec sum{.name = "sum", .role = Role::inout, .dtype = "x", .elements = Expression(1)};
  EXPECT_FALSE(starts_poisoned(sum, {{"beta", 0}}));  // always read; no scalar's name means anything
  sum.unread_when = {{"keep", 0}, {"first", 1}};
  EXPECT_TRUE(starts_poisoned(sum, {{"keep", 0}, {"first", 1}, {"beta", 1}}));
  EXPECT_FALSE(starts_poisoned(sum, {{"keep", 0}, {"first", 0}}));
  EXPECT_FALSE(starts_poisoned(sum, {{"keep", 0.5}, {"first", 1}}));
  EXPECT_FALSE(starts_poisoned(sum, {{"keep", 0}}));
}

TEST(StartsPoisoned, EveryOutputAndNoInput) {
  EXPECT_TRUE(starts_poisoned({.name = "y", .role = Role::out, .dtype = "y", .elements = Expression(1)}, {}));
  EXPECT_FALSE(starts_poisoned({.name = "x", .role = Role::in, .dtype = "x", .elements = Expression(1)}, {}));
}

TEST_F(LayoutTest, OperandsThatAProblemDoesNotHaveAreEmpty) {
  const std::vector<OperandLayout> plain = operand_layouts(*op, gemm(bf16, f32));
  EXPECT_EQ(plain[3].elements, 0);
  EXPECT_EQ(plain[4].elements, 0);
  const std::vector<OperandLayout> full = operand_layouts(*op, gemm(bf16, f32, {{"addend", "c"}, {"bias", "m"}}));
  EXPECT_EQ(full[3].bytes, 72);
  EXPECT_EQ(full[4].bytes, 12);
  const std::vector<OperandLayout> gated =
      operand_layouts(*op, gemm(bf16, bf16, {{"addend", "residual"}, {"bias", "n"}, {"activation", "swiglu"}}));
  EXPECT_EQ(gated[2].elements, 9);
  EXPECT_EQ(gated[3].elements, 9);
  EXPECT_EQ(gated[4].elements, 6);
}

TEST_F(LayoutTest, OffsetsHaveTheirBoundsAndMayShareASeed) {
  const std::shared_ptr<const OpSpec> attention = templates.find_op("attention");
  const auto layouts_of = [&](const std::string& text) {
    const std::string shape = "h=2,d=64,dtype=bf16,b=4,s_q=10,t_q=25,lengths=cumulative";
    return operand_layouts(*attention, problem_from_text(*attention, parse_problem_text("attention", shape + text)));
  };
  const std::vector<OperandLayout> same = layouts_of("");
  ASSERT_EQ(same.size(), 7U);
  EXPECT_EQ(same[0].seeded_by, 0U);
  EXPECT_EQ(same[0].distribution, Distribution::normal);
  for (const std::size_t i : {5U, 6U}) {
    EXPECT_EQ(same[i].distribution, Distribution::offsets);
    EXPECT_EQ(same[i].dtype, DType::i32);
    EXPECT_EQ(same[i].elements, 5);
    EXPECT_EQ(same[i].offsets, (OffsetBounds{.total = 25, .largest = 10}));
    EXPECT_EQ(same[i].seeded_by, 5U);
  }
  const std::vector<OperandLayout> longer = layouts_of(",s_k=20,t_k=60");
  EXPECT_EQ(longer[6].offsets, (OffsetBounds{.total = 60, .largest = 20}));
  EXPECT_EQ(longer[6].seeded_by, 6U);
}

TEST_F(LayoutTest, OffsetsComeFromTheHostAndNeedNoKernel) {
  const std::shared_ptr<const OpSpec> attention = templates.find_op("attention");
  const Problem problem = problem_from_text(
      *attention, parse_problem_text("attention", "b=2,h=2,s_q=10,d=64,dtype=bf16,lengths=cumulative"));
  const std::vector<std::string> names = check_kernels_request(*attention, problem, {}).name_expressions;
  const auto has = [&names](const std::string& name) {
    return std::find(names.begin(), names.end(), "kiln::check::" + name) != names.end();
  };
  EXPECT_TRUE(has("compare<kiln::int32_t, kiln::int32_t>"));
  EXPECT_TRUE(has("fill_normal<kiln::bf16>"));
  EXPECT_FALSE(has("fill_normal<kiln::int32_t>"));
}

TEST_F(LayoutTest, TheReferenceReadsTheSameInputs) {
  const Problem truth = reference_problem(*op, gemm(bf16, bf16, {{"addend", "c"}, {"bias", "n"}}));
  EXPECT_EQ(truth.dtypes.at("d"), f32);
  EXPECT_EQ(truth.dtypes.at("c"), bf16);
}

TEST_F(LayoutTest, DIsAnOutputWhereSomethingElseIsAdded) {
  EXPECT_EQ(operand_layouts(*op, gemm(bf16, bf16))[2].role, Role::inout);
  EXPECT_EQ(operand_layouts(*op, gemm(bf16, bf16, {{"addend", "c"}}))[2].role, Role::out);
}

TEST_F(LayoutTest, ChecksReachTheBendOfAnActivation) {
  const auto plain = check_cases(*op, gemm(bf16, bf16));
  ASSERT_EQ(plain.size(), 2U);
  EXPECT_DOUBLE_EQ(plain[0].at("alpha"), 1.0);
  EXPECT_DOUBLE_EQ(plain[0].at("beta"), 0.0);
  EXPECT_DOUBLE_EQ(plain[1].at("alpha"), -0.75);
  const auto active = check_cases(*op, gemm(bf16, bf16, {{"activation", "gelu"}}));
  ASSERT_EQ(active.size(), 2U);
  EXPECT_DOUBLE_EQ(active[0].at("alpha"), 1.0);
  EXPECT_NEAR(active[1].at("alpha"), -2.0 / std::sqrt(7.0), 1e-12);
  const auto residual = check_cases(*op, gemm(bf16, bf16, {{"addend", "residual"}}));
  EXPECT_DOUBLE_EQ(residual[0].at("beta"), 1.0);
}

TEST_F(LayoutTest, ScalarsComeInTheOpsOrderAndType) {
  const std::vector<ScalarValue> scalars = scalar_values(*op, {{"beta", 0.5}});
  ASSERT_EQ(scalars.size(), 2U);
  EXPECT_FLOAT_EQ(scalars[0].f32, 1.0F);
  EXPECT_FLOAT_EQ(scalars[1].f32, 0.5F);
}

TEST_F(LayoutTest, ATightToleranceGivesWayToTheOutputsRounding) {
  const Manifest& manifest = templates.find("simt_gemm")->manifest;
  EXPECT_DOUBLE_EQ(tolerance(manifest, *op, gemm(f32, f32)), 1e-5);
  EXPECT_GT(tolerance(manifest, *op, gemm(f32, bf16)), 1e-3);
  Problem gated = gemm(f32, f32);
  gated.choices["activation"] = "swiglu";
  EXPECT_DOUBLE_EQ(tolerance(manifest, *op, complete(*op, gated)), 2e-5);
  OpSpec tightened = *op;
  tightened.check.loosen = Expression("M - M");
  EXPECT_THROW(tolerance(manifest, tightened, gemm(f32, f32)), Error);
}

TEST_F(LayoutTest, CheckKernelsAreNamedForTheProblemsDtypes) {
  cuda::DeviceInfo device;
  device.cc_major = 9;
  const jit::CompileRequest request = check_kernels_request(*op, gemm(bf16, f16), device);
  EXPECT_EQ(request.arch, "sm_90a");
  EXPECT_TRUE(request.headers.count("check/check.cuh"));
  const std::vector<std::string>& names = request.name_expressions;
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  EXPECT_TRUE(has("kiln::check::fill_normal<kiln::bf16>"));
  EXPECT_TRUE(has("kiln::check::compare<kiln::f32, kiln::f16>"));
  EXPECT_TRUE(has("kiln::check::poison<kiln::f16>"));
}

TEST(RotationTest, SetsTogetherExceedTheL2ThreeTimes) {
  constexpr std::int64_t kL2 = 60 << 20;
  constexpr std::int64_t kPlenty = std::int64_t{1} << 40;
  EXPECT_EQ(rotation_sets(1 << 20, kL2, kPlenty, true), 180);
  EXPECT_EQ(rotation_sets(std::int64_t{1} << 30, kL2, kPlenty, true), 2);
  EXPECT_EQ(rotation_sets(1 << 20, kL2, 10 << 20, true), 10);
  EXPECT_EQ(rotation_sets(1 << 20, kL2, 0, true), 1);
  EXPECT_EQ(rotation_sets(1 << 20, kL2, kPlenty, false), 1);
}

}  // namespace
}  // namespace kiln::tuner
