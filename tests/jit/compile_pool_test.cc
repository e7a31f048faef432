#include "jit/compile_pool.h"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "jit/nvrtc.h"
#include "kiln/error.h"

namespace kiln::jit {
namespace {

using std::chrono::milliseconds;

CompileRequest order(std::string what) {
  CompileRequest request;
  request.source = std::move(what);
  return request;
}

CompiledUnit unit_of(std::future<CompileOutcome> future) {
  const CompileOutcome outcome = future.get();
  if (const auto* failure = std::get_if<CompileFailure>(&outcome)) {
    ADD_FAILURE() << failure->message;
    return {};
  }
  return std::get<CompiledUnit>(outcome);
}

std::string failure_of(std::future<CompileOutcome> future) {
  const CompileOutcome outcome = future.get();
  if (const auto* failure = std::get_if<CompileFailure>(&outcome)) return failure->message;
  ADD_FAILURE() << "it compiled";
  return {};
}

// "Z" for a process that has ended and is not yet waited for.
std::string state_of(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string number;
  std::string name;
  std::string state;
  stat >> number >> name >> state;
  return state;
}

// The pool against a helper that does as the source says; a result's log is the process that made it.
class CompilePoolOfFakes : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(setenv("KILN_TEST_FAKE_COMPILER", "1", 1), 0); }
  void TearDown() override { unsetenv("KILN_TEST_FAKE_COMPILER"); }

  static CompilePoolOptions options(int num_processes) {
    CompilePoolOptions options;
    options.helper = KILN_COMPILE_HELPER;
    options.num_processes = num_processes;
    return options;
  }
};

TEST_F(CompilePoolOfFakes, AnswersEveryRequestWithItsOwnResult) {
  CompilePool pool(options(3));
  EXPECT_EQ(pool.num_processes(), 3);
  std::vector<std::future<CompileOutcome>> futures;
  for (int i = 0; i < 100; ++i) futures.push_back(pool.submit(order(std::to_string(i))));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(unit_of(std::move(futures[static_cast<std::size_t>(i)])).cubin, std::to_string(i));
}

TEST_F(CompilePoolOfFakes, SpreadsWorkOverItsProcesses) {
  CompilePool pool(options(3));
  std::vector<std::future<CompileOutcome>> futures;
  for (int i = 0; i < 30; ++i) futures.push_back(pool.submit(order("nap")));
  std::set<std::string> processes;
  for (auto& future : futures) processes.insert(unit_of(std::move(future)).log);
  EXPECT_EQ(processes.size(), 3U);
}

TEST_F(CompilePoolOfFakes, ACrashFailsOneRequestAndTheNextIsAnswered) {
  CompilePool pool(options(1));
  const std::string message = failure_of(pool.submit(order("crash")));
  EXPECT_NE(message.find("signal 9 (Killed)"), std::string::npos) << message;
  EXPECT_EQ(unit_of(pool.submit(order("next"))).cubin, "next");
}

TEST_F(CompilePoolOfFakes, AnEarlyExitIsReportedWithItsStatus) {
  CompilePool pool(options(1));
  const std::string message = failure_of(pool.submit(order("exit")));
  EXPECT_NE(message.find("exit status 3"), std::string::npos) << message;
}

TEST_F(CompilePoolOfFakes, AHangEndsAtTheDeadlineAndTheOthersGoOn) {
  CompilePoolOptions impatient = options(2);
  impatient.deadline = milliseconds(3'000);
  CompilePool pool(impatient);
  auto hanging = pool.submit(order("hang"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(unit_of(pool.submit(order("other"))).cubin, "other");
  const std::string message = failure_of(std::move(hanging));
  EXPECT_NE(message.find("longer than 3000 ms"), std::string::npos) << message;
  EXPECT_EQ(unit_of(pool.submit(order("after"))).cubin, "after");
}

TEST_F(CompilePoolOfFakes, AnAnswerThatIsNoneIsAFailure) {
  CompilePool pool(options(1));
  const std::string message = failure_of(pool.submit(order("garbage")));
  EXPECT_NE(message.find("not a compile outcome"), std::string::npos) << message;
  EXPECT_EQ(unit_of(pool.submit(order("next"))).cubin, "next");
}

TEST_F(CompilePoolOfFakes, AProcessIsReplacedAfterItsShareOfJobs) {
  CompilePoolOptions short_lived = options(1);
  short_lived.jobs_per_process = 2;
  CompilePool pool(short_lived);
  std::set<std::string> processes;
  for (int i = 0; i < 6; ++i) processes.insert(unit_of(pool.submit(order("job"))).log);
  EXPECT_EQ(processes.size(), 3U);
}

TEST_F(CompilePoolOfFakes, AProcessIsReplacedWhenItGrowsTooLarge) {
  CompilePoolOptions frugal = options(1);
  frugal.memory_limit_bytes = std::size_t{512} << 20;
  CompilePool pool(frugal);
  std::set<std::string> processes;
  for (int i = 0; i < 12; ++i) processes.insert(unit_of(pool.submit(order("grow"))).log);
  EXPECT_GE(processes.size(), 2U);
  EXPECT_LE(processes.size(), 6U);
}

TEST_F(CompilePoolOfFakes, AProcessThatDiesIdleCostsNoRequest) {
  CompilePool pool(options(1));
  const std::string first = unit_of(pool.submit(order("job"))).log;
  ASSERT_EQ(kill(std::stoi(first), SIGKILL), 0);
  while (state_of(first) != "Z") std::this_thread::sleep_for(milliseconds(5));
  EXPECT_NE(unit_of(pool.submit(order("job"))).log, first);
}

TEST_F(CompilePoolOfFakes, AFreshProcessTriesAgainWhereAUsedOneDied) {
  CompilePool pool(options(1));
  const std::string first = unit_of(pool.submit(order("job"))).log;
  EXPECT_NE(unit_of(pool.submit(order("fresh"))).log, first);
}

TEST_F(CompilePoolOfFakes, DestructionCancelsWhatWaitsAndWhatRuns) {
  std::future<CompileOutcome> running;
  std::future<CompileOutcome> waiting;
  const auto start = std::chrono::steady_clock::now();
  {
    CompilePool pool(options(1));
    running = pool.submit(order("hang"));
    std::this_thread::sleep_for(milliseconds(200));
    waiting = pool.submit(order("never"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(20'000));
  EXPECT_NE(failure_of(std::move(running)).find("cancelled"), std::string::npos);
  EXPECT_NE(failure_of(std::move(waiting)).find("cancelled"), std::string::npos);
}

TEST_F(CompilePoolOfFakes, APoolThatIsNeverUsedStartsNothing) { CompilePool pool(options(8)); }

TEST(CompilePool, AHelperThatCannotStartFailsTheRequest) {
  CompilePoolOptions options;
  options.helper = "/nonexistent/kiln";
  options.num_processes = 1;
  CompilePool pool(options);
  const std::string message = failure_of(pool.submit(order("any")));
  EXPECT_NE(message.find("/nonexistent/kiln"), std::string::npos) << message;
}

TEST(CompilePool, AHelperThatIsNoneFailsTheRequest) {
  CompilePoolOptions options;
  options.helper = "/bin/false";
  options.num_processes = 1;
  CompilePool pool(options);
  const std::string message = failure_of(pool.submit(order("any")));
  EXPECT_NE(message.find("exit status 1"), std::string::npos) << message;
}

TEST(CompilePool, CompilesForReal) {
  try {
    Nvrtc::instance();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  CompilePoolOptions options;
  options.helper = KILN_COMPILE_HELPER;
  options.num_processes = 2;
  CompilePool pool(options);
  const auto source_for = [](const std::string& source, const std::string& arch) {
    CompileRequest request;
    request.source = source;
    request.arch = arch;
    request.name_expressions = {"k"};
    return request;
  };
  auto good = pool.submit(source_for("extern \"C\" __global__ void k(int* x) { *x = 1; }", "sm_90a"));
  auto broken = pool.submit(source_for("extern \"C\" __global__ void k(int* x) { *x = ; }", "sm_90a"));
  auto unsupported = pool.submit(source_for("extern \"C\" __global__ void k(int* x) { *x = 1; }", "sm_299"));
  const CompiledUnit unit = unit_of(std::move(good));
  ASSERT_EQ(unit.kernels.size(), 1U);
  EXPECT_EQ(unit.kernels[0].symbol, "k");
  EXPECT_FALSE(unit.cubin.empty());
  EXPECT_NE(failure_of(std::move(broken)).find("error"), std::string::npos);
  EXPECT_NE(failure_of(std::move(unsupported)).find("sm_299"), std::string::npos);
}

TEST(CompilePool, TheDefaultCountFitsTheMachine) {
  EXPECT_GE(default_compile_processes(), 1);
  EXPECT_LE(default_compile_processes(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace kiln::jit
