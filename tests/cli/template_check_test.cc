// Each of the manifests in tests/templates/broken is refused with a message that names the file, the key and the cure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/cli/run_kiln.h"

namespace kiln::test {
namespace {

using testing::HasSubstr;

struct Broken {
  const char* file;  // in tests/templates/broken, without .toml
  const char* key;
  const char* cure;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.file; }

class BrokenManifest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenManifest, IsRefusedWithFileKeyAndCure) {
  const Machine machine;
  const std::string file = source_path("tests/templates/broken/" + std::string(GetParam().file) + ".toml").string();
  const Ended ended = machine.kiln({"template", "check", file});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr(file));
  EXPECT_THAT(ended.out, HasSubstr(std::string(": ") + GetParam().key + ": "));
  EXPECT_THAT(ended.out, HasSubstr(GetParam().cure));
}

INSTANTIATE_TEST_SUITE_P(
    Cli, BrokenManifest,
    testing::Values(Broken{"toml_syntax", R"(TOML syntax)", "expected"},
                    Broken{"unknown_key", R"(sumary)", "did you mean 'summary'"},
                    Broken{"missing_name", R"(name)", "give it a string"},
                    Broken{"name_not_text", R"(name)", "expected a string"},
                    Broken{"missing_op", R"(op)", "name an op"}, Broken{"unknown_op", R"(op)", "did you mean 'gemm'"},
                    Broken{"bad_arch", R"(arch)", "write sm_90a"}, Broken{"missing_source", R"(source)", "nowhere.cuh"},
                    Broken{"unknown_dtype", R"(op.dtypes.x.values)", "bf16"},
                    Broken{"unknown_accept_dtype", R"(accept[0].z)", "allowed: x"},
                    Broken{"bad_role", R"(op.operands.x.role)", "allowed: in, out, inout"},
                    Broken{"no_values", R"(params.THREADS)", "give at least one"},
                    Broken{"value_twice", R"(params.THREADS)", "each value once"},
                    Broken{"values_not_a_list", R"(params.THREADS)", "expected a list of integers"},
                    Broken{"unknown_symbol", R"(require."THREADZ <= 1024")", "did you mean 'THREADS'"},
                    Broken{"bad_expression", R"(launch[0].grid[0])", "ceil_div"},
                    Broken{"forbidden_function", R"(launch[0].grid[0])", "allowed"},
                    Broken{"let_in_a_circle", R"(let.a)", "circle"},
                    Broken{"let_hides_parameter", R"(let.THREADS)", "choose another name"},
                    Broken{"no_launch", R"(launch)", "at least one"},
                    Broken{"four_grid_dims", R"(launch[0].grid)", "allowed are 1 to 3"},
                    Broken{"unknown_operand", R"(launch[0].args[0])", "allowed: x, y"},
                    Broken{"unknown_scalar", R"(launch[0].args[3])", "allowed: alpha"},
                    Broken{"two_kinds_of_argument", R"(launch[0].args[0])", "exactly one of"},
                    Broken{"bad_argument_type", R"(launch[0].args[2].type)", "i64"},
                    Broken{"workspace_without_size", R"(workspace.partials.bytes)", "give the size"},
                    Broken{"map_without_strides", R"(tensor_map.x.strides)", "allowed are 1 to 1"},
                    Broken{"no_default", R"(default)", "give every parameter a value"},
                    Broken{"unknown_default", R"(default.THREAD)", "did you mean 'THREADS'"},
                    Broken{"illegal_default", R"(default)", "choose a configuration"},
                    Broken{"no_reference", R"(check)", "[[check.launch]]"},
                    Broken{"division_by_zero", R"(launch)", "division by zero"},
                    Broken{"block_too_large", R"(launch)", "1024"}, Broken{"empty_space", R"(require)", "loosen"},
                    Broken{"huge_space", R"(params)", "shorten"}, Broken{"accepts_nothing", R"(accept)", "loosen"},
                    Broken{"source_does_not_compile", R"(source)", "correct the source"}),
    [](const auto& test) { return test.param.file; });

TEST(TemplateCheck, PassesASoundManifest) {
  const Machine machine;
  const std::string file = source_path("tests/templates/sound/axpy.toml").string();
  const Ended ended = machine.kiln({"template", "check", file});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("sound"));
  EXPECT_THAT(ended.out, HasSubstr("sm_90"));
}

TEST(TemplateCheck, GoesOnAfterABrokenFileAndReportsAllAsJson) {
  const Machine machine;
  const Ended ended = machine.kiln({"template", "check", "--no-compile", "--json",
                                    source_path("tests/templates/broken/no_launch.toml").string(),
                                    source_path("tests/templates/sound/axpy.toml").string()});
  EXPECT_EQ(ended.code, 1);
  const Json reports = Json::parse(ended.out);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_FALSE(reports[0]["ok"]);
  EXPECT_TRUE(reports[1]["ok"]);
}

TEST(TemplateCheck, PassesTheRmsnormExample) {
  const Machine machine;
  const Ended ended = machine.kiln({"template", "check", source_path("examples/rmsnorm/rmsnorm.toml").string()});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

}  // namespace
}  // namespace kiln::test
