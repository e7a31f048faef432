#include "jit/resource_report.h"

#include <gtest/gtest.h>

namespace kiln::jit {
namespace {

constexpr const char* kLog =
    "unit.cu(3): warning #177-D: variable \"unused\" was declared but never referenced\n"
    "\n"
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function 'first'\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'second' for 'sm_90a'\n"
    "ptxas info    : Function properties for second\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 10 registers, used 4 barriers\n"
    "ptxas info    : Compiling entry function 'first' for 'sm_90a'\n"
    "ptxas info    : Function properties for first\n"
    "ptxas         .     488 bytes stack frame, 888 bytes spill stores, 920 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 1 barriers, 488 bytes cumulative stack size, 1024 bytes smem\n"
    "ptxas info    : Function properties for helper\n"
    "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
    "ptxas info    : Compile time = 62.272 ms\n";

TEST(ResourceReport, ReadsEachKernelsRegistersSpillsAndStack) {
  const PtxasReport report = read_ptxas_report(kLog);
  ASSERT_EQ(report.kernels.size(), 2U);
  const PtxasUsage& second = report.kernels.at("second");
  EXPECT_EQ(second.registers, 10);
  EXPECT_EQ(second.spill_store_bytes, 0);
  EXPECT_EQ(second.spill_load_bytes, 0);
  EXPECT_EQ(second.stack_bytes, 0);
}

TEST(ResourceReport, CountsAFunctionWithTheKernelItIsListedUnder) {
  const PtxasUsage first = read_ptxas_report(kLog).kernels.at("first");
  EXPECT_EQ(first.registers, 168);
  EXPECT_EQ(first.spill_store_bytes, 896);
  EXPECT_EQ(first.spill_load_bytes, 924);
  EXPECT_EQ(first.stack_bytes, 504);
}

TEST(ResourceReport, AdvisoriesArePtxasLinesOnly) {
  const PtxasReport report = read_ptxas_report(kLog);
  ASSERT_EQ(report.advisories.size(), 1U);
  EXPECT_NE(report.advisories[0].find("C7510"), std::string::npos);
}

TEST(ResourceReport, AWarningOfPtxasIsAnAdvisory) {
  const PtxasReport report = read_ptxas_report("ptxas warning : setmaxnreg ignored; unable to determine registers\n");
  EXPECT_EQ(report.advisories.size(), 1U);
}

TEST(ResourceReport, AnEmptyOrTruncatedLogIsNoError) {
  EXPECT_TRUE(read_ptxas_report("").kernels.empty());
  const std::string log = kLog;
  for (std::size_t length = 0; length < log.size(); ++length) read_ptxas_report(log.substr(0, length));
}

}  // namespace
}  // namespace kiln::jit
