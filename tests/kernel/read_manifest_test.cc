#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/manifest.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ReadManifest : public testing::Test {
 protected:
  ManifestDraft draft;

  Manifest read() const { return read_manifest(draft.text(), "mix.toml"); }
  std::string refusal() const {
    const std::string message = message_of(ErrorCode::invalid_manifest, [this] { static_cast<void>(read()); });
    EXPECT_THAT(message, StartsWith("mix.toml"));
    return message;
  }
  std::string refusal_of_launch(const std::string& launch) {
    draft.launch = launch;
    return refusal();
  }
};

TEST_F(ReadManifest, ReadsEveryPart) {
  draft.top = R"(summary = "s"
bake = ["N"]
priority = -3
deterministic = false
options = ["--use_fast_math"]
[[accept]]
x = ["bf16", "f16"]
y = ["=x", "f32"]
[require_problem]
"align_x >= 16" = "wide loads"
)";
  draft.params = "T = [32, 64, 128]\nSPLIT = { values = [1, 2], launch = true }";
  draft.tables = R"([let]
bytes = "T * 4"
[require]
"bytes <= 512" = "few"
[workspace.sums]
bytes = "SPLIT * M * 4"
zero = true
[tensor_map.sums]
workspace = "sums"
dtype = "f32"
dims = ["M", "SPLIT"]
strides = ["M"]
box = ["T", "1"]
swizzle = 128
[cost]
cycles = "M * N / T"
[check]
tolerance = { bf16 = 1e-2 }
[[check.launch]]
kernel = "kiln::mix_truth"
grid = "M"
block = 32
)";
  draft.launch = R"toml(kernel = "kiln::mix"
when = "N > 0"
grid = ["ceil_div(M, T)", "SPLIT"]
block = ["T"]
cluster = [2]
shared = "bytes"
pdl = 1
args = [{ pointer = "x" }, { map = "sums" }, { workspace = "sums" }, { value = "M", type = "u32" }, { value = 7 },
        { scalar = "alpha" }, { struct = [{ value = "N", type = "i32" }, { pointer = "y" }] }])toml";
  draft.fallback = "T = 64\nSPLIT = 1";
  const Manifest manifest = read();

  EXPECT_EQ(manifest.name, "mix_fast");
  EXPECT_EQ(manifest.op, "mix");
  ASSERT_TRUE(manifest.inline_op);
  EXPECT_EQ(manifest.source, "mix.cuh");
  EXPECT_THAT(manifest.arch, ElementsAre("sm_75+"));
  EXPECT_THAT(manifest.bake, ElementsAre("N"));
  EXPECT_EQ(manifest.priority, -3);
  EXPECT_FALSE(manifest.deterministic);
  EXPECT_THAT(manifest.options, ElementsAre("--use_fast_math"));
  ASSERT_EQ(manifest.accept.size(), 1U);
  EXPECT_THAT(manifest.accept[0].dtypes.at("x"), ElementsAre(bf16, f16));
  EXPECT_THAT(manifest.accept[0].dtypes.at("y"), ElementsAre(f32));
  EXPECT_EQ(manifest.accept[0].same_as.at("y"), "x");
  ASSERT_EQ(manifest.require_problem.size(), 1U);
  EXPECT_EQ(manifest.require_problem[0].reason, "wide loads");
  ASSERT_EQ(manifest.params.size(), 2U);
  EXPECT_EQ(manifest.params[0].name, "T");
  EXPECT_THAT(manifest.params[0].values, ElementsAre(32, 64, 128));
  EXPECT_FALSE(manifest.params[0].launch_time);
  EXPECT_TRUE(manifest.find_param("SPLIT")->launch_time);
  EXPECT_EQ(manifest.find_param("BM"), nullptr);
  EXPECT_TRUE(manifest.workspaces[0].zero);
  EXPECT_EQ(manifest.tensor_maps[0].dtype, f32);
  EXPECT_EQ(manifest.tensor_maps[0].swizzle.text(), "128");
  EXPECT_EQ(manifest.cost_cycles->text(), "M * N / T");
  EXPECT_EQ(manifest.check_tolerance.at(bf16), 1e-2);
  EXPECT_EQ(manifest.check_launches.at(0).kernel, "kiln::mix_truth");
  EXPECT_EQ(manifest.fallback, (Config{{"T", 64}, {"SPLIT", 1}}));

  const LaunchSpec& launch = manifest.launches.at(0);
  EXPECT_EQ(launch.when.text(), "N > 0");
  EXPECT_EQ(launch.grid.size(), 2U);
  EXPECT_EQ(launch.cluster.at(0).text(), "2");
  EXPECT_EQ(launch.pdl.text(), "1");
  ASSERT_EQ(launch.args.size(), 7U);
  EXPECT_EQ(launch.args[3].type, ScalarType::u32);
  EXPECT_EQ(launch.args[4].type, ScalarType::i64);
  EXPECT_EQ(launch.args[4].value->text(), "7");
  EXPECT_EQ(launch.args[6].kind, ArgSpec::Kind::structure);
  EXPECT_EQ(launch.args[6].fields.at(1).kind, ArgSpec::Kind::pointer);
}

TEST_F(ReadManifest, ParametersKeepTheOrderInWhichTheyAreWritten) {
  draft.params = "Z = [1]\nA = [1]\nM2 = [1]";
  const Manifest manifest = read();
  ASSERT_EQ(manifest.params.size(), 3U);
  EXPECT_EQ(manifest.params[0].name, "Z");
  EXPECT_EQ(manifest.params[1].name, "A");
  EXPECT_EQ(manifest.params[2].name, "M2");
}

TEST_F(ReadManifest, LetsAreOrderedByWhatTheyUse) {
  draft.tables = "[let]\na = \"b + c\"\nb = \"c * 2\"\nc = \"T\"\n";
  const Manifest manifest = read();
  ASSERT_EQ(manifest.lets.size(), 3U);
  EXPECT_EQ(manifest.lets[0].name, "c");
  EXPECT_EQ(manifest.lets[1].name, "b");
  EXPECT_EQ(manifest.lets[2].name, "a");
}

TEST_F(ReadManifest, LetsInACircleAreNamed) {
  draft.tables = "[let]\nfine = \"T\"\na = \"b + 1\"\nb = \"a + 1\"\n";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("let.a"), HasSubstr("in a circle through a, b")));
  draft.tables = "[let]\na = \"a + 1\"\n";
  EXPECT_THAT(refusal(), HasSubstr("in a circle through a"));
}

TEST_F(ReadManifest, AnUnknownKeyIsNamedWithThoseAllowed) {
  draft.top = "priorty = 1";
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("priorty: unknown key; did you mean 'priority'?"), HasSubstr("allowed here:")));
}

TEST_F(ReadManifest, UnknownKeysAreFoundInEveryTable) {
  const auto with_tables = [this](const std::string& tables) {
    draft = {};
    draft.tables = tables;
    return refusal();
  };
  EXPECT_THAT(with_tables("[workspace.w]\nbytes = 1\nzeroed = true"), HasSubstr("workspace.w.zeroed: unknown key"));
  EXPECT_THAT(with_tables("[tensor_map.x]\noperand = \"x\"\ndims = [1]\nbox = [1]\nswizle = 0"),
              HasSubstr("tensor_map.x.swizle: unknown key; did you mean 'swizzle'?"));
  EXPECT_THAT(with_tables("[cost]\nclocks = 1"), HasSubstr("cost.clocks: unknown key"));
  EXPECT_THAT(with_tables("[check]\ntolerances = {}"), HasSubstr("check.tolerances: unknown key"));
  draft = {};
  draft.params = "T = { values = [1], launched = true }";
  EXPECT_THAT(refusal(), HasSubstr("params.T.launched: unknown key; did you mean 'launch'?"));
  draft = {};
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\ngrid = 1\nblock = 1\nsmem = 0"), HasSubstr("smem: unknown key"));
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [{ pointer = \"x\", typ = \"i32\" }]"),
              HasSubstr("typ: unknown key"));
}

TEST_F(ReadManifest, AMessageNamesTheLine) {
  draft.name = "mix";
  draft.top = "\n\npriority = \"high\"";
  EXPECT_THAT(refusal(), HasSubstr("mix.toml:6: priority: expected an integer, found the string \"high\""));
}

TEST_F(ReadManifest, ATomlSyntaxErrorNamesTheLine) {
  draft.top = "priority = = 1";
  EXPECT_THAT(refusal(), HasSubstr("mix.toml:4: TOML syntax"));
}

TEST_F(ReadManifest, AValueOfTheWrongTypeSaysWhatWasExpectedAndFound) {
  draft.top = "bake = 3";
  EXPECT_THAT(refusal(), HasSubstr("bake: expected an array of strings, found the integer 3"));
  draft.top = "bake = [\"M\", 3]";
  EXPECT_THAT(refusal(), HasSubstr("bake[1]: expected a string, found the integer 3"));
  draft.top = "summary = true";
  EXPECT_THAT(refusal(), HasSubstr("summary: expected a string, found the boolean true"));
  draft.top = "accept = { x = [\"bf16\"] }";
  EXPECT_THAT(refusal(), HasSubstr("accept: expected an array of tables, found a table"));
  draft.top = "";
  draft.tables = "[let]\na = 1.5";
  EXPECT_THAT(refusal(), HasSubstr("let.a: expected an integer expression as a string, found the number 1.5"));
  draft.tables = "[workspace.w]\nbytes = 1\nzero = 1";
  EXPECT_THAT(refusal(), HasSubstr("workspace.w.zero: expected true or false, found the integer 1"));
  draft.tables = "cost = 3";
  draft.tables = "";
  draft.fallback = "T = \"64\"";
  EXPECT_THAT(refusal(), HasSubstr("default.T: expected an integer, found the string \"64\""));
}

TEST_F(ReadManifest, ABadExpressionIsPlaced) {
  draft.tables = "[let]\nthreads = \"T ** 2\"";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("let.threads"), HasSubstr("'T ** 2'"), HasSubstr("allowed are")));
  draft.tables = "[require]\n\"T = 3\" = \"why\"";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("require.\"T = 3\""), HasSubstr("allowed are")));
}

TEST_F(ReadManifest, AConstraintNeedsAReason) {
  draft.tables = "[require]\n\"T > 3\" = \"\"";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("require.\"T > 3\""), HasSubstr("why it must hold")));
  draft.tables = "[require]\n\"T > 3\" = 1";
  EXPECT_THAT(refusal(), HasSubstr("found the integer 1"));
}

TEST_F(ReadManifest, NameSourceAndOpAreNeeded) {
  draft.name = "";
  EXPECT_THAT(refusal(), HasSubstr("name: is empty"));
  draft = {};
  draft.source = "";
  EXPECT_THAT(refusal(), HasSubstr("source: is empty"));
  draft = {};
  draft.op = "";
  EXPECT_THAT(refusal(), HasSubstr("op: missing"));
  EXPECT_THAT(message_of(ErrorCode::invalid_manifest, [] { static_cast<void>(read_manifest("", "empty.toml")); }),
              HasSubstr("empty.toml: name: missing"));
}

TEST_F(ReadManifest, ArchitecturesHaveOneOfTheKnownForms) {
  for (const char* arch : {R"(["sm_90a"])", R"(["sm_80+", "sm_75"])", R"("sm_100a")", R"(["sm_120+"])"}) {
    draft.arch = arch;
    EXPECT_NO_THROW(static_cast<void>(read())) << arch;
  }
  for (const char* arch : {R"(["sm_9"])", R"(["90"])", R"(["sm_90b"])", R"(["sm_90++"])", R"(["compute_90"])",
                           R"(["sm_9000"])", R"(["sm_"])", R"([""])"}) {
    draft.arch = arch;
    EXPECT_THAT(refusal(), AllOf(HasSubstr("arch"), HasSubstr("is no architecture; write sm_90a"))) << arch;
  }
  draft.arch = "[]";
  EXPECT_THAT(refusal(), HasSubstr("arch: missing"));
}

TEST_F(ReadManifest, ParametersNeedDistinctIntegers) {
  draft.params = "T = []";
  EXPECT_THAT(refusal(), HasSubstr("params.T: has no values"));
  draft.params = "T = [32, 32]";
  EXPECT_THAT(refusal(), HasSubstr("params.T: lists a value twice"));
  draft.params = "T = [32, \"64\"]";
  EXPECT_THAT(refusal(), HasSubstr("params.T: expected integers, found the string \"64\""));
  draft.params = "T = 32";
  EXPECT_THAT(refusal(), HasSubstr("params.T: expected a list of integers, found the integer 32"));
  draft.params = "T = { launch = true }";
  EXPECT_THAT(refusal(), HasSubstr("params.T.values: missing"));
}

TEST_F(ReadManifest, NamesThatBecomeCodeMustBeNames) {
  draft.params = "\"T-1\" = [1]";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("params.T-1"), HasSubstr("'T-1' is not a name")));
  draft.params = "\"1T\" = [1]";
  EXPECT_THAT(refusal(), HasSubstr("'1T' is not a name"));
  draft = {};
  draft.tables = "[let]\n\"a b\" = 1";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("let"), HasSubstr("'a b' is not a name")));
}

TEST_F(ReadManifest, ALaunchNeedsKernelGridAndBlock) {
  EXPECT_THAT(refusal_of_launch("grid = 1\nblock = 1"), HasSubstr("launch[0].kernel: missing"));
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\nblock = 1"),
              HasSubstr("launch[0].grid: has 0 entries; allowed are 1 to 3"));
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\ngrid = [1, 1, 1, 1]\nblock = 1"), HasSubstr("grid: has 4 entries"));
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\ngrid = 1\nblock = []"), HasSubstr("block: has 0 entries"));
  EXPECT_THAT(refusal_of_launch("kernel = \"k\"\ngrid = 1\nblock = 1\ncluster = [1, 1, 1, 1]"),
              HasSubstr("cluster: has 4 entries; allowed are 0 to 3"));
}

TEST_F(ReadManifest, AnArgumentIsOfExactlyOneKind) {
  const auto with_arg = [this](const std::string& arg) {
    return refusal_of_launch("kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [{ pointer = \"x\" }, " + arg + "]");
  };
  EXPECT_THAT(with_arg("{}"), AllOf(HasSubstr("launch[0].args[1]"), HasSubstr("needs exactly one of pointer")));
  EXPECT_THAT(with_arg("{ pointer = \"x\", scalar = \"alpha\" }"), HasSubstr("needs exactly one of pointer"));
  EXPECT_THAT(with_arg("{ value = \"M\", type = \"i8\" }"),
              HasSubstr("'i8' is no scalar type; allowed: i32, u32, i64"));
  EXPECT_THAT(with_arg("{ value = \"M\", type = \"f32\" }"), HasSubstr("an expression is an integer"));
  EXPECT_THAT(with_arg("{ struct = [] }"), HasSubstr("args[1].struct: has no fields"));
  EXPECT_THAT(with_arg("{ struct = [{ map = \"x\" }] }"), HasSubstr("struct[0]"));
  EXPECT_THAT(with_arg("{ struct = [{ struct = [{ value = 1 }] }] }"), HasSubstr("struct[0]"));
  EXPECT_THAT(with_arg("3"), HasSubstr("expected a table, found the integer 3"));
}

TEST_F(ReadManifest, ATensorMapNeedsWhatItIsOverAndMatchingRanks) {
  const auto with_map = [this](const std::string& map) {
    draft.tables = "[tensor_map.m]\n" + map;
    return refusal();
  };
  EXPECT_THAT(with_map("dims = [1]\nbox = [1]"), HasSubstr("needs exactly one of operand and workspace"));
  EXPECT_THAT(with_map("operand = \"x\"\nworkspace = \"w\"\ndims = [1]\nbox = [1]"), HasSubstr("needs exactly one of"));
  EXPECT_THAT(with_map("workspace = \"w\"\ndims = [1]\nbox = [1]"), HasSubstr("tensor_map.m.dtype: missing"));
  EXPECT_THAT(with_map("operand = \"x\"\nbox = [1]"), HasSubstr("dims: has 0 entries; allowed are 1 to 5"));
  EXPECT_THAT(with_map("operand = \"x\"\ndims = [1, 2]\nbox = [1, 1]"),
              HasSubstr("strides: has 0 entries; allowed are 1 to 1"));
  EXPECT_THAT(with_map("operand = \"x\"\ndims = [1, 2]\nstrides = [1]\nbox = [1]"), HasSubstr("box: has 1 entries"));
}

TEST_F(ReadManifest, AToleranceMustBeAboveZero) {
  draft.tables = "[check]\ntolerance = { bf16 = 0.0 }";
  EXPECT_THAT(refusal(), HasSubstr("check.tolerance.bf16: must be above 0"));
}

class ReadOp : public testing::Test {
 protected:
  static OpSpec changed(const std::string& from, const std::string& to) {
    std::string text = kMixOp;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    ManifestDraft draft;
    draft.op = text;
    return *read_manifest(draft.text(), "mix.toml").inline_op;
  }
  static std::string refusal(const std::string& from, const std::string& to) {
    return message_of(ErrorCode::invalid_manifest, [&] { static_cast<void>(changed(from, to)); });
  }
  // Operand y with another role and the condition on which it is not read.
  static std::string with_condition(const std::string& role, const std::string& unread_when) {
    return "role = \"" + role + "\"\nunread_when = " + unread_when + "\ndtype = \"y\"";
  }
  static std::string refusal_of_condition(const std::string& role, const std::string& unread_when) {
    return refusal(kRoleOfY, with_condition(role, unread_when));
  }

  static constexpr const char* kRoleOfY = "role = \"out\"\ndtype = \"y\"";
};

TEST_F(ReadOp, FollowsTheOrderWritten) {
  const OpSpec op = mix_op();
  ASSERT_EQ(op.dims.size(), 3U);
  EXPECT_EQ(op.dims[0].name, "M");
  EXPECT_EQ(op.dims[2].name, "ld");
  EXPECT_TRUE(op.dims[2].is_stride);
  EXPECT_EQ(op.operands[0].name, "x");
  EXPECT_EQ(op.operands[1].role, Role::out);
  EXPECT_EQ(op.scalars[1].type, ScalarType::i64);
  EXPECT_EQ(op.scalars[1].fallback, 3);
  EXPECT_EQ(op.find_operand("y"), &op.operands[1]);
  EXPECT_EQ(op.find_operand("z"), nullptr);
}

TEST_F(ReadOp, ACheckWithoutCasesRunsOnceWithTheDefaults) {
  const OpSpec op = mix_op();
  ASSERT_EQ(op.check.cases.size(), 1U);
  EXPECT_EQ(op.check.cases[0].scalars, (std::map<std::string, double>{{"alpha", 1.5}, {"count", 3}}));
}

TEST_F(ReadOp, WhatOnlySomeProblemsHaveNeedsADefaultAndDependsOnChoicesAlone) {
  EXPECT_THAT(refusal("M = { min = 1 }", "M = { min = 1, when = \"layout_is_row\" }"),
              AllOf(HasSubstr("op.dims.M.when"), HasSubstr("needs a default")));
  EXPECT_THAT(refusal("x = { values", "x = { when = \"layout_is_row\", values"),
              AllOf(HasSubstr("op.dtypes.x.when"), HasSubstr("needs a default")));
  EXPECT_THAT(refusal("kind = \"stride\"", "kind = \"stride\", when = \"M > 1\""),
              AllOf(HasSubstr("op.dims.ld.when"), HasSubstr("unknown symbol 'M'")));
}

TEST_F(ReadOp, OnlyAnInoutOperandIsSometimesAnOutputAlone) {
  EXPECT_THAT(refusal("role = \"in\"", "role = \"in\"\noutput_when = \"layout_is_row\""),
              AllOf(HasSubstr("op.operands.x.output_when"), HasSubstr("role inout")));
  EXPECT_THAT(refusal("role = \"out\"", "role = \"inout\"\noutput_when = \"M > 1\""),
              AllOf(HasSubstr("op.operands.y.output_when"), HasSubstr("unknown symbol 'M'")));
}

TEST_F(ReadOp, AChecksScalarsAndExtentsMustExist) {
  EXPECT_THAT(refusal("reference = ", "cases = [ { by_root = { gamma = \"M\" } } ]\nreference = "),
              AllOf(HasSubstr("by_root.gamma"), HasSubstr("names no scalar")));
  EXPECT_THAT(refusal("reference = ", "cases = [ { by_root = { alpha = \"Q\" } } ]\nreference = "),
              HasSubstr("unknown symbol 'Q'"));
  EXPECT_THAT(refusal("reference = ", "cases = [ { when = \"Q\", alpha = 2.0 } ]\nreference = "),
              HasSubstr("unknown symbol 'Q'"));
}

TEST_F(ReadOp, ATypicalValueIsOneTheDimMayHave) {
  EXPECT_THAT(refusal("M = { min = 1 }", "M = { min = 2, typical = 1 }"),
              AllOf(HasSubstr("op.dims.M.typical"), HasSubstr("1 is below the dim's min, 2")));
  EXPECT_FALSE(mix_op().dims.front().typical);
}

TEST_F(ReadOp, AToleranceIsLoosenedByAnExpressionOfTheProblem) {
  EXPECT_THAT(refusal("reference = ", "loosen = \"Q\"\nreference = "),
              AllOf(HasSubstr("op.check.loosen"), HasSubstr("unknown symbol 'Q'")));
}

TEST_F(ReadOp, ADefaultMayUseOnlyDimsBeforeIt) {
  EXPECT_THAT(refusal("M = { min = 1 }", "M = { default = \"N\" }"),
              AllOf(HasSubstr("op.dims.M.default"), HasSubstr("unknown symbol 'N'")));
}

TEST_F(ReadOp, EverySymbolMustExist) {
  EXPECT_THAT(refusal("\"2 * M * N\"", "\"2 * M * K\""), AllOf(HasSubstr("op.cost.flops"), HasSubstr("'K'")));
  EXPECT_THAT(refusal("\"M * N\"", "\"M * n\""),
              AllOf(HasSubstr("op.operands.x.elements"), HasSubstr("did you mean 'N'")));
}

TEST_F(ReadOp, RolesDTypesAndKindsAreFromTheirLists) {
  EXPECT_THAT(refusal("role = \"in\"", "role = \"input\""), HasSubstr("'input'; allowed: in, out, inout"));
  EXPECT_THAT(refusal("dtype = \"y\"", "dtype = \"z\""), HasSubstr("'z' is no dtype of the op; allowed: x, y"));
  EXPECT_THAT(refusal("kind = \"stride\"", "kind = \"pitch\""), HasSubstr("'pitch'; the only kind is \"stride\""));
  EXPECT_THAT(refusal("\"=x\"", "\"=z\""), HasSubstr("'=z' names no dtype written before this one"));
  EXPECT_THAT(refusal("default = \"row\"", "default = \"diagonal\""),
              HasSubstr("'diagonal' is not among the values row, col"));
  EXPECT_THAT(refusal("type = \"i64\"", "type = \"f64\""), HasSubstr("'f64' is no scalar type"));
  EXPECT_THAT(refusal("\"f16\", \"f32\"]", "\"fp12\"]"), HasSubstr("'fp12' is no dtype; allowed: f32, tf32"));
}

TEST_F(ReadOp, AnInoutOperandSaysWhenItIsNotRead) {
  const OpSpec op = changed(kRoleOfY, with_condition("inout", "{ alpha = -0.5, count = 7 }"));
  EXPECT_EQ(op.operands[1].unread_when, (std::map<std::string, double>{{"alpha", -0.5}, {"count", 7}}));
  EXPECT_THAT(op.operands[0].unread_when, testing::IsEmpty());
  EXPECT_THAT(changed(kRoleOfY, "role = \"inout\"\ndtype = \"y\"").operands[1].unread_when, testing::IsEmpty());
}

TEST_F(ReadOp, OnlyAnInoutOperandCanBeUnread) {
  EXPECT_THAT(refusal_of_condition("out", "{ alpha = 0.0 }"),
              AllOf(HasSubstr("op.operands.y.unread_when"), HasSubstr("role is out"), HasSubstr("role inout")));
  EXPECT_THAT(refusal_of_condition("in", "{ alpha = 0.0 }"), HasSubstr("role is in;"));
}

TEST_F(ReadOp, WhenAnOperandIsUnreadIsSaidByScalarsOfTheOp) {
  EXPECT_THAT(refusal_of_condition("inout", "{ alpa = 0.0 }"),
              AllOf(HasSubstr("op.operands.y.unread_when.alpa"), HasSubstr("'alpa' is no scalar of the op"),
                    HasSubstr("did you mean 'alpha'"), HasSubstr("allowed: alpha, count")));
  EXPECT_THAT(refusal_of_condition("inout", "{}"), AllOf(HasSubstr("unread_when"), HasSubstr("is empty")));
  EXPECT_THAT(refusal_of_condition("inout", "\"alpha == 0\""), HasSubstr("expected a table, found the string"));
}

TEST_F(ReadOp, AValueThatTheScalarNeverHasIsRefused) {
  EXPECT_THAT(
      refusal_of_condition("inout", "{ alpha = \"0\" }"),
      AllOf(HasSubstr("op.operands.y.unread_when.alpha"), HasSubstr("expected a number, found the string \"0\"")));
  EXPECT_THAT(refusal_of_condition("inout", "{ count = 0.5 }"),
              AllOf(HasSubstr("op.operands.y.unread_when.count"), HasSubstr("a scalar of type i64 can have"),
                    HasSubstr("found the number 0.5")));
  EXPECT_THAT(refusal_of_condition("inout", "{ count = 1e19 }"), HasSubstr("a scalar of type i64 can have"));
  EXPECT_THAT(refusal_of_condition("inout", "{ alpha = nan }"), HasSubstr("a scalar of type f32 can have"));
}

TEST_F(ReadOp, ADTypesDefaultIsAmongItsValues) {
  EXPECT_THAT(refusal("default = \"=x\"", "default = \"i8\""),
              AllOf(HasSubstr("op.dtypes.y.default"), HasSubstr("'i8' is not among the values")));
}

TEST_F(ReadOp, TheReferencesDTypesAreTheOps) {
  EXPECT_THAT(refusal("reference = ", "reference_dtypes = { z = \"f32\" }\nreference = "),
              HasSubstr("op.check.reference_dtypes.z: names no dtype of the op"));
}

TEST_F(ReadOp, ASymbolOfTheDeviceIsNoNameForADim) {
  EXPECT_THAT(refusal("ld = {", "sm_count = { default = 1 }\nld = {"),
              AllOf(HasSubstr("sm_count"), HasSubstr("symbol of the device")));
}

TEST_F(ReadOp, UnknownKeysAreRefused) {
  EXPECT_THAT(refusal("summary = ", "sumary = "), HasSubstr("op.sumary: unknown key; did you mean 'summary'?"));
  EXPECT_THAT(refusal("M = { min = 1 }", "M = { max = 1 }"), HasSubstr("op.dims.M.max: unknown key"));
}

}  // namespace
}  // namespace kiln
