#include "kernel/kernel_key.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/template_set.h"
#include "tests/cache/scratch_folder.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A template on disk, its problem and device, for tests to change one thing of.
struct Case {
  ManifestDraft draft;
  std::string source = "#include \"part.cuh\"\nnamespace kiln { template <class C> __global__ void mix() {} }\n";
  std::string part = "#pragma once\n";
  Problem problem = mix_problem(1000, 16);
  Config config{{"T", 64}, {"SPLIT", 1}};
  cuda::DeviceInfo device = sample_device();
  std::string nvrtc = "13.0";

  Case() {
    draft.params = "T = [32, 64, 128]\nSPLIT = { values = [1, 2], launch = true }";
    draft.fallback = "T = 64\nSPLIT = 1";
    draft.top = "bake = [\"N\"]\nsummary = \"one\"\n[require_problem]\n\"M > 0\" = \"rows\"";
    draft.tables = R"toml([let]
bytes = "T * N * sizeof_x"
grid = "ceil_div(M, T)"
load_cycles = "T * load_rate"
[require]
"T <= 1024" = "a block"
[workspace.w]
bytes = "SPLIT * 4"
[cost]
cycles = "M + load_cycles"
[cost.constants]
load_rate = 3
)toml";
  }

  TemplatePtr load(const cache::ScratchFolder& folder) const {
    cache::write_file(folder.path() / draft.source, source);
    cache::write_file(folder.path() / "part.cuh", part);
    cache::write_file(folder.path() / "mix.toml", draft.text());
    return TemplateSet().load(folder.path() / "mix.toml");
  }
  std::string digest() const {
    const cache::ScratchFolder folder;
    return kernel_key(*load(folder), problem, config, device, nvrtc).digest();
  }
  jit::CompileRequest request() const {
    const cache::ScratchFolder folder;
    return compile_request(*load(folder), problem, config, device);
  }
};

std::string changed(const std::function<void(Case&)>& change) {
  Case one;
  change(one);
  return one.digest();
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(KernelKey, IsTheSameForTheSameKernelInAnotherFolder) { EXPECT_EQ(Case().digest(), Case().digest()); }

TEST(KernelKey, ChangesWithEverythingThatChangesTheCode) {
  const std::map<std::string, std::function<void(Case&)>> changes{
      {"source", [](Case& c) { c.source += "\n"; }},
      {"included text", [](Case& c) { c.part += "\n"; }},
      {"compile-time parameter", [](Case& c) { c.config["T"] = 128; }},
      {"baked dim", [](Case& c) { c.problem = mix_problem(1000, 32); }},
      {"dtype", [](Case& c) { c.problem.dtypes["y"] = f32; }},
      {"choice", [](Case& c) { c.problem.choices["layout"] = "col"; }},
      {"architecture", [](Case& c) { c.device.cc_major = 8; }},
      {"NVRTC", [](Case& c) { c.nvrtc = "12.9"; }},
      {"let", [](Case& c) { replace(c.draft.tables, "T * N * sizeof_x", "T * N * sizeof_y"); }},
      {"kernel", [](Case& c) { replace(c.draft.launch, "kiln::mix", "kiln::mux"); }},
      {"compiler options", [](Case& c) { c.draft.top = "options = [\"--use_fast_math\"]\n" + c.draft.top; }},
      {"name", [](Case& c) { c.draft.name = "mix_other"; }},
  };
  std::map<std::string, std::string> digests{{Case().digest(), "the original"}};
  for (const auto& [what, change] : changes) {
    const auto [it, added] = digests.emplace(changed(change), what);
    EXPECT_TRUE(added) << what << " gives the key of " << it->second;
  }
}

TEST(KernelKey, ChangesWithTheLaunchAndItsArguments) {
  const std::map<std::string, std::function<void(Case&)>> changes{
      {"grid", [](Case& c) { replace(c.draft.launch, "ceil_div(M, T)", "ceil_div(M, 2 * T)"); }},
      {"arguments", [](Case& c) { replace(c.draft.launch, "{ pointer = \"y\" }", "{ workspace = \"w\" }"); }},
      {"workspace", [](Case& c) { replace(c.draft.tables, "SPLIT * 4", "SPLIT * 8"); }},
      {"launch-time flag", [](Case& c) { replace(c.draft.params, "launch = true", "launch = false"); }},
  };
  for (const auto& [what, change] : changes) EXPECT_NE(changed(change), Case().digest()) << what;
}

TEST(KernelKey, DoesNotChangeWithWhatLeavesTheCodeAlone) {
  const std::map<std::string, std::function<void(Case&)>> changes{
      {"value list", [](Case& c) { replace(c.draft.params, "[32, 64, 128]", "[16, 64]"); }},
      {"default", [](Case& c) { replace(c.draft.fallback, "T = 64", "T = 32"); }},
      {"cost", [](Case& c) { replace(c.draft.tables, "cycles = \"M", "cycles = \"2 * M"); }},
      {"constant of the cost model", [](Case& c) { replace(c.draft.tables, "load_rate = 3", "load_rate = 4"); }},
      {"let of the cost model", [](Case& c) { replace(c.draft.tables, "T * load_rate", "2 * T * load_rate"); }},
      {"summary", [](Case& c) { replace(c.draft.top, "\"one\"", "\"two\""); }},
      {"priority", [](Case& c) { c.draft.top = "priority = 7\n" + c.draft.top; }},
      {"promise of determinism", [](Case& c) { c.draft.top = "deterministic = false\n" + c.draft.top; }},
      {"reason", [](Case& c) { replace(c.draft.tables, "\"a block\"", "\"a whole block\""); }},
      {"constraint", [](Case& c) { replace(c.draft.tables, "T <= 1024", "T <= 512"); }},
      {"requirement of the problem", [](Case& c) { replace(c.draft.top, "M > 0", "M > 1"); }},
      {"launch-time parameter", [](Case& c) { c.config["SPLIT"] = 2; }},
      {"dim that is not baked", [](Case& c) { c.problem = mix_problem(2000, 16); }},
      {"stride", [](Case& c) { c.problem.dims["ld"] = 64; }},
      {"alignment", [](Case& c) { c.problem.alignments["x"] = 256; }},
      {"SM count", [](Case& c) { c.device.sm_count = 78; }},
      {"tolerance", [](Case& c) { replace(c.draft.op, "bf16 = 5e-3", "bf16 = 1e-3"); }},
      {"comment in the manifest", [](Case& c) { c.draft.tables = "# why\n" + c.draft.tables; }},
  };
  for (const auto& [what, change] : changes) EXPECT_EQ(changed(change), Case().digest()) << what;
}

TEST(KernelKey, AnUnknownPartIsNeverAWildcard) {
  Case no_nvrtc;
  no_nvrtc.nvrtc = "";
  EXPECT_THAT(message_of(ErrorCode::internal, [&] { no_nvrtc.digest(); }), HasSubstr("unknown component"));
  Case no_arch;
  no_arch.device.cc_major = 3;
  EXPECT_THAT(message_of(ErrorCode::internal, [&] { no_arch.digest(); }), HasSubstr("unknown component"));
}

TEST(CompileRequest, EmitsAnIncludeAndAStructOfWhatIsFixed) {
  EXPECT_EQ(Case().request().source, R"(#include "ptx/types.cuh"
#include "mix.cuh"
namespace kiln_baked {
struct C {
  using x_t = kiln::bf16;
  using y_t = kiln::bf16;
  static constexpr bool layout_is_row = true;
  static constexpr bool layout_is_col = false;
  static constexpr long long N = 16LL;
  static constexpr long long T = 64LL;
  static constexpr long long bytes = 2048LL;
};
}
)");
}

TEST(CompileRequest, ALetIsFixedOnlyIfAllItReadsIs) {
  Case one;
  one.draft.tables = R"([let]
fixed = "T + N + sizeof_x + x_is_bf16 + layout_is_row"
through = "fixed * 2"
reads_dim = "M + 1"
reads_launch_time = "SPLIT + 1"
reads_device = "sm_count + 1"
reads_alignment = "align_x + 1"
reads_a_loose_let = "reads_dim + T"
[workspace.w]
bytes = 4
)";
  const std::string source = one.request().source;
  EXPECT_THAT(source, HasSubstr("long long fixed = 84LL;"));
  EXPECT_THAT(source, HasSubstr("long long through = 168LL;"));
  EXPECT_THAT(source, Not(HasSubstr("reads_")));
  EXPECT_THAT(source, Not(HasSubstr("SPLIT")));
}

TEST(CompileRequest, NegativeValuesAreWrittenAsSuch) {
  Case one;
  one.draft.tables += "\n";
  replace(one.draft.tables, "[let]", "[let]\nless = \"T - 100\"");
  EXPECT_THAT(one.request().source, HasSubstr("long long less = -36LL;"));
}

TEST(CompileRequest, CarriesEveryHeaderAndAsksForEveryKernel) {
  Case one;
  one.draft.launch += "\n[[launch]]\nkernel = \"kiln::mix_end\"\ngrid = 1\nblock = 32";
  const jit::CompileRequest request = one.request();
  EXPECT_EQ(request.headers.at("mix.cuh"), one.source);
  EXPECT_EQ(request.headers.at("part.cuh"), one.part);
  EXPECT_EQ(request.headers.count("ptx/types.cuh"), 1U);
  EXPECT_THAT(request.name_expressions, ElementsAre("kiln::mix<kiln_baked::C>", "kiln::mix_end<kiln_baked::C>"));
  EXPECT_EQ(request.arch, "sm_90");
  EXPECT_EQ(request.file_name, "mix_fast.cu");
  EXPECT_TRUE(request.include_paths.empty());
}

TEST(CompileRequest, OfTheCheckHoldsNoParameter) {
  Case one;
  one.draft.tables += "[[check.launch]]\nkernel = \"kiln::truth\"\ngrid = \"M\"\nblock = 32\n";
  const cache::ScratchFolder folder;
  const jit::CompileRequest request = check_compile_request(*one.load(folder), one.problem, one.device);
  EXPECT_THAT(request.name_expressions, ElementsAre("kiln::truth<kiln_baked::C>"));
  EXPECT_THAT(request.source, HasSubstr("using x_t = kiln::bf16;"));
  EXPECT_THAT(request.source, Not(HasSubstr(" T = ")));
}

}  // namespace
}  // namespace kiln
