#include "jit/cubin.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "jit/compile.h"
#include "kiln/error.h"

namespace kiln::jit {
namespace {

// A cubin with two kernels, compiled once.
const std::string& sample_cubin() {
  static const std::string cubin = [] {
    CompileRequest request;
    request.source =
        "extern \"C\" __global__ void first(float* x) { __shared__ float s[64]; s[threadIdx.x] = *x; "
        "__syncthreads(); *x = s[63]; }\n"
        "extern \"C\" __global__ void second(int* x) { *x = 1; }\n";
    request.name_expressions = {"first", "second"};
    request.arch = "sm_90a";
    try {
      const CompileOutcome outcome = compile(request);
      if (const auto* unit = std::get_if<CompiledUnit>(&outcome)) return unit->cubin;
    } catch (const Error&) {
      // No NVRTC on this machine: the tests that need an image skip themselves.
    }
    return std::string();
  }();
  return cubin;
}

class Cubin : public testing::Test {
 protected:
  void SetUp() override {
    if (sample_cubin().empty()) GTEST_SKIP() << "no NVRTC";
  }
};

TEST_F(Cubin, NamesItsTargetAndItsKernels) {
  const auto info = read_cubin(sample_cubin());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->sm, 90);
  ASSERT_EQ(info->kernels.size(), 2U);
  const bool first_is_first = info->kernels[0].symbol == "first";
  const CubinKernel& first = info->kernels[first_is_first ? 0 : 1];
  const CubinKernel& second = info->kernels[first_is_first ? 1 : 0];
  EXPECT_EQ(first.symbol, "first");
  EXPECT_EQ(first.static_shared_bytes, 256);
  EXPECT_EQ(first.barriers, 1);
  EXPECT_GT(first.registers, 0);
  EXPECT_EQ(first.local_bytes, 0);
  EXPECT_EQ(second.symbol, "second");
  EXPECT_EQ(second.static_shared_bytes, 0);
  EXPECT_EQ(second.barriers, 0);
}

TEST_F(Cubin, IsRefusedWhenCutAtAnyLength) {
  const std::string& whole = sample_cubin();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer sees a read past it.
    const std::string cut = whole.substr(0, length);
    std::string problem;
    ASSERT_FALSE(read_cubin(cut, &problem)) << length;
    ASSERT_FALSE(problem.empty()) << length;
  }
}

TEST_F(Cubin, SurvivesAnyDamagedByte) {
  for (std::size_t at = 0; at < sample_cubin().size(); ++at) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = sample_cubin();
      damaged[at] = value;
      read_cubin(damaged);
    }
    if (at > 1024) at += 6;  // the headers byte by byte, the rest in steps
  }
}

TEST_F(Cubin, SurvivesRandomDamage) {
  std::mt19937 random(20240607);
  for (int round = 0; round < 5'000; ++round) {
    std::string damaged = sample_cubin();
    for (int i = 0; i < 8; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    read_cubin(damaged);
  }
}

TEST(CubinGarbage, IsRefusedWithAReason) {
  std::mt19937 random(7);
  for (std::size_t length = 0; length < 600; ++length) {
    std::string garbage(length, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    std::string problem;
    EXPECT_FALSE(read_cubin(garbage, &problem));
    EXPECT_FALSE(problem.empty());
  }
}

TEST(CubinGarbage, AnElfImageForAnotherMachineIsRefused) {
  std::string elf(128, '\0');
  std::memcpy(elf.data(),
              "\x7f"
              "ELF\x02\x01\x01",
              7);
  elf[18] = 62;  // x86-64
  std::string problem;
  EXPECT_FALSE(read_cubin(elf, &problem));
  EXPECT_NE(problem.find("not for CUDA"), std::string::npos) << problem;
}

}  // namespace
}  // namespace kiln::jit
