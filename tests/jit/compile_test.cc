#include "jit/compile.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "jit/cubin.h"
#include "jit/nvrtc.h"
#include "kiln/error.h"

namespace kiln::jit {
namespace {

constexpr const char* kScale = R"(
namespace demo {
template <int N>
__global__ void scale(float* x, float by) {
  __shared__ float row[N];
  row[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = row[N - 1 - threadIdx.x] * by;
}
}  // namespace demo
)";

// Keeps 128 values alive in a block of 1024 threads, which have 64 registers each.
constexpr const char* kSpilling = R"(
extern "C" __global__ void __launch_bounds__(1024) spilling(float* x, int n) {
  float a[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) a[i] = x[i * 1024 + threadIdx.x];
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 128; ++i) a[i] = a[i] * a[(i * 7 + 3) & 127] + x[j];
  }
#pragma unroll
  for (int i = 0; i < 128; ++i) x[i * 1024 + threadIdx.x] = a[i];
}
)";

CompileRequest request(std::string source, std::string kernel, std::string arch = "sm_90a") {
  CompileRequest request;
  request.source = std::move(source);
  request.name_expressions = {std::move(kernel)};
  request.arch = std::move(arch);
  return request;
}

CompiledUnit expect_unit(const CompileOutcome& outcome) {
  if (const auto* failure = std::get_if<CompileFailure>(&outcome)) {
    ADD_FAILURE() << failure->message << "\n" << failure->log;
    return {};
  }
  return std::get<CompiledUnit>(outcome);
}

CompileFailure expect_failure(const CompileOutcome& outcome) {
  if (const auto* failure = std::get_if<CompileFailure>(&outcome)) return *failure;
  ADD_FAILURE() << "it compiled";
  return {};
}

class Compile : public testing::Test {
 protected:
  void SetUp() override {
    try {
      Nvrtc::instance();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(Compile, MakesACubinForEveryArchitectureThatNvrtcKnows) {
  for (const int arch : Nvrtc::instance().supported_archs()) {
    if (arch < 75) continue;
    SCOPED_TRACE(arch);
    const std::string target = "sm_" + std::to_string(arch) + (arch >= 90 ? "a" : "");
    const CompiledUnit unit = expect_unit(compile(request(kScale, "demo::scale<256>", target)));
    const auto cubin = read_cubin(unit.cubin);
    ASSERT_TRUE(cubin);
    EXPECT_EQ(cubin->sm, arch);
    EXPECT_NE(unit.ptx.find(".target " + target), std::string::npos);
    EXPECT_GT(unit.milliseconds, 0);
    ASSERT_EQ(unit.kernels.size(), 1U);
    EXPECT_EQ(unit.kernels[0].name_expression, "demo::scale<256>");
    EXPECT_EQ(unit.kernels[0].symbol, "_ZN4demo5scaleILi256EEEvPff");
    EXPECT_EQ(unit.kernels[0].static_shared_bytes, 1024);
    EXPECT_EQ(unit.kernels[0].spill_store_bytes, 0);
    EXPECT_GT(unit.kernels[0].registers, 0);
    EXPECT_GT(unit.kernels[0].constant_bytes, 12);  // the arguments, behind the driver's own
    EXPECT_TRUE(unit.warnings.empty()) << unit.warnings[0];
  }
}

TEST_F(Compile, ReportsSeveralKernelsInTheOrderTheyWereAskedFor) {
  CompileRequest both = request(kScale, "demo::scale<64>");
  both.name_expressions.insert(both.name_expressions.begin(), "demo::scale<512>");
  const CompiledUnit unit = expect_unit(compile(both));
  ASSERT_EQ(unit.kernels.size(), 2U);
  EXPECT_EQ(unit.kernels[0].static_shared_bytes, 2048);
  EXPECT_EQ(unit.kernels[1].static_shared_bytes, 256);
}

TEST_F(Compile, ReportsSpillsAndTheStackFrame) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(arch);
    const CompiledUnit unit = expect_unit(compile(request(kSpilling, "spilling", arch)));
    ASSERT_EQ(unit.kernels.size(), 1U);
    EXPECT_EQ(unit.kernels[0].symbol, "spilling");
    EXPECT_EQ(unit.kernels[0].registers, 64);
    EXPECT_GT(unit.kernels[0].spill_store_bytes, 0);
    EXPECT_GT(unit.kernels[0].spill_load_bytes, 0);
    EXPECT_GT(unit.kernels[0].stack_bytes, 0);
  }
}

TEST_F(Compile, ReportsBarriersByTheHighestInUse) {
  const CompiledUnit unit = expect_unit(
      compile(request("extern \"C\" __global__ void two(int* x) { __syncthreads(); asm volatile(\"bar.sync 3;\"); "
                      "x[0] = 1; }",
                      "two")));
  ASSERT_EQ(unit.kernels.size(), 1U);
  EXPECT_EQ(unit.kernels[0].barriers, 4);
}

TEST_F(Compile, TheSpillsOfAFunctionThatIsNotInlinedCountWithItsKernel) {
  const CompiledUnit unit = expect_unit(compile(request(R"(
__device__ __noinline__ float sum(const float* x, int n) {
  float a[100];
  for (int i = 0; i < 100; ++i) a[i] = x[i];
  float s = 0;
  for (int j = 0; j < n; ++j) s += a[(j * j) % 100];
  return s;
}
extern "C" __global__ void calls(float* x, int n) { x[0] = sum(x, n); }
)",
                                                        "calls")));
  ASSERT_EQ(unit.kernels.size(), 1U);
  EXPECT_EQ(unit.kernels[0].stack_bytes, 400);
}

TEST_F(Compile, CollectsWhatPtxasSaysOfSerialisedWgmma) {
  // The pipeline crosses a call.
  const CompiledUnit unit = expect_unit(compile(request(R"(
__device__ __noinline__ void multiply(float* d, unsigned long long a) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "l"(a), "l"(a));
}
extern "C" __global__ void __launch_bounds__(128) serialised(float* x, unsigned long long a) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;");
  multiply(d, a);
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  x[threadIdx.x] = d[0] + d[1];
}
)",
                                                        "serialised")));
  std::string all;
  for (const std::string& warning : unit.warnings) all += warning + "\n";
  EXPECT_NE(all.find("C7510"), std::string::npos) << unit.log;
}

TEST_F(Compile, CollectsThatSetmaxnregIsIgnoredWithoutLaunchBounds) {
  const CompiledUnit unit = expect_unit(compile(request(
      "extern \"C\" __global__ void k(int* x) { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\"); *x = 1; }",
      "k")));
  ASSERT_EQ(unit.warnings.size(), 1U) << unit.log;
  EXPECT_NE(unit.warnings[0].find("C7508"), std::string::npos) << unit.warnings[0];
}

TEST_F(Compile, TheSameRequestGivesTheSameBytes) {
  if (!Nvrtc::instance().at_least(12, 9)) GTEST_SKIP() << "this NVRTC names symbols at random";
  const auto make = [] { return expect_unit(compile(request(kScale, "demo::scale<128>"))); };
  const CompiledUnit first = make();
  const CompiledUnit second = make();
  EXPECT_EQ(first.cubin, second.cubin);
  EXPECT_EQ(first.ptx, second.ptx);
  // NVRTC's own cache would swallow what ptxas says the second time.
  EXPECT_EQ(second.kernels.at(0).registers, first.kernels.at(0).registers);
  EXPECT_NE(second.log.find("Used "), std::string::npos);
}

TEST_F(Compile, ReportsTheWholeLogOnASyntaxError) {
  CompileRequest broken =
      request("__global__ void broken() {\n  int first = ;\n  float second = nowhere;\n}\n", "broken");
  broken.file_name = "my_kernel.cu";
  const CompileFailure failure = expect_failure(compile(broken));
  EXPECT_EQ(failure.message.find("my_kernel.cu(2): error:"), 0U) << failure.message;
  EXPECT_EQ(failure.message.find('\n'), std::string::npos);
  EXPECT_NE(failure.log.find("my_kernel.cu(2)"), std::string::npos);
  EXPECT_NE(failure.log.find("nowhere"), std::string::npos);
}

TEST_F(Compile, AnUnknownKernelNamesTheExpression) {
  const CompileFailure failure = expect_failure(compile(request(kScale, "demo::absent<1>")));
  EXPECT_NE(failure.log.find("absent"), std::string::npos);
}

TEST_F(Compile, AnUnknownOptionIsAFailureThatNamesIt) {
  CompileRequest odd = request(kScale, "demo::scale<64>");
  odd.options = {"--no-such-option"};
  EXPECT_NE(expect_failure(compile(odd)).log.find("--no-such-option"), std::string::npos);
}

TEST_F(Compile, WhatPtxasRefusesIsAFailureWithItsLog) {
  const CompileFailure failure = expect_failure(
      compile(request("extern \"C\" __global__ void bad() { asm volatile(\"no.such.instruction;\"); }", "bad")));
  EXPECT_FALSE(failure.message.empty());
  EXPECT_NE(failure.log.find("'no'"), std::string::npos) << failure.log;
  EXPECT_EQ(failure.log.find('\0'), std::string::npos);
}

TEST_F(Compile, HeadersComeFromTheRequest) {
  CompileRequest with_header = request("#include \"parts/width.cuh\"\n" + std::string(kScale) +
                                           "template __global__ void demo::scale<kWidth>(float*, float);\n",
                                       "demo::scale<kWidth>");
  with_header.headers["parts/width.cuh"] = "constexpr int kWidth = 32;\n";
  const CompiledUnit unit = expect_unit(compile(with_header));
  ASSERT_EQ(unit.kernels.size(), 1U);
  EXPECT_EQ(unit.kernels[0].static_shared_bytes, 128);
}

TEST_F(Compile, NothingIsReadFromTheDisk) {
  // A header that does lie in the folder of this process.
  const std::string name = "kiln_compile_test_stray.cuh";
  std::ofstream(name) << "constexpr int kStray = 1;\n";
  const CompileFailure failure =
      expect_failure(compile(request("#include \"" + name + "\"\n" + kScale, "demo::scale<64>")));
  std::filesystem::remove(name);
  EXPECT_NE(failure.message.find(name), std::string::npos) << failure.message;
}

TEST_F(Compile, AnUnsupportedArchitectureNamesTheLibraryItsVersionAndItsList) {
  try {
    compile(request(kScale, "demo::scale<64>", "sm_299"));
    FAIL() << "it compiled";
  } catch (const Error& error) {
    const Nvrtc& nvrtc = Nvrtc::instance();
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(message.find("sm_299"), std::string::npos) << message;
    EXPECT_NE(message.find(nvrtc.path()), std::string::npos) << message;
    EXPECT_NE(message.find(nvrtc.version()), std::string::npos) << message;
    EXPECT_NE(message.find("sm_" + std::to_string(nvrtc.supported_archs().back())), std::string::npos) << message;
  }
}

TEST_F(Compile, ArchitecturesBeforeHopperHaveNoFeaturesOfTheirOwn) {
  EXPECT_THROW(compile(request(kScale, "demo::scale<64>", "sm_80a")), Error);
}

TEST_F(Compile, AMalformedArchitectureIsRefused) {
  for (const char* arch : {"", "sm_", "90a", "sm_90b", "compute_90", "sm_90a ", "sm_99999999999"}) {
    EXPECT_THROW(compile(request(kScale, "demo::scale<64>", arch)), Error) << arch;
  }
}

TEST_F(Compile, NvrtcKnowsWhereItCameFrom) {
  EXPECT_TRUE(Nvrtc::loaded());
  EXPECT_NE(Nvrtc::instance().path().find("libnvrtc"), std::string::npos);
  EXPECT_TRUE(Nvrtc::instance().at_least(12, 4));
  EXPECT_FALSE(Nvrtc::instance().at_least(Nvrtc::instance().major() + 1, 0));
}

TEST(Nvrtc, AMissingLibraryNamesEveryPlaceTried) {
  // In a process of its own, where NVRTC is not yet loaded.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("KILN_NVRTC", "/nowhere/libnvrtc.so", 1);
        try {
          Nvrtc::instance();
        } catch (const Error& error) {
          const std::string message = error.what();
          const bool clear = error.code() == ErrorCode::not_found && !Nvrtc::loaded() &&
                             message.find("/nowhere/libnvrtc.so") != std::string::npos;
          std::exit(clear ? 0 : 1);
        }
        std::exit(2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln::jit
