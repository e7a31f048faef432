// Templates that crash, hang, answer wrongly, write where they must not, leak, or do not compile, tuned beside good
// ones on a real GPU: each is recorded as its kind of failure, the run goes on, and none wins.
#include <gmock/gmock.h>

#include "tests/gpu/gpu_lab.h"

namespace kiln::tuner {
namespace {

using testing::HasSubstr;

class BadTemplatesGpuTest : public GpuTest {};

struct Expectation {
  const char* template_name;
  FailureKind kind;
  const char* message;
};

constexpr Expectation kExpected[] = {
    {"bad_crash", FailureKind::crash, ""},
    {"bad_hang", FailureKind::timeout, "did not end"},
    {"bad_wrong", FailureKind::wrong_result, "relative error"},
    {"bad_overrun", FailureKind::wrong_result, "wrote outside operand y"},
    {"bad_unwritten", FailureKind::wrong_result, "1 elements unwritten"},
    {"bad_input", FailureKind::wrong_result, "changed its input x"},
    {"bad_restless", FailureKind::wrong_result, "gave other values of y"},
    {"bad_leak", FailureKind::wrong_result, "unwritten"},
    {"bad_compile", FailureKind::compile, "twice"},
    {"bad_spills", FailureKind::resources, "spills"},
};

TEST_F(BadTemplatesGpuTest, EachIsRecordedAsItsKindAndNoneWins) {
  GpuLab lab({test_templates() / "toy", test_templates() / "bad"});
  lab.options.search = SearchKind::exhaustive;
  lab.options.candidate_deadline = std::chrono::milliseconds(4000);
  // Not a multiple of any block, so that an overrun shows.
  Problem problem{.op = "toy", .dims = {{"N", (1 << 20) + 17}}, .dtypes = {}, .choices = {}, .alignments = {}};
  const TuneResult result = lab.tune(problem);
  EXPECT_FALSE(result.failed) << result.message;
  EXPECT_THAT(result.template_name, HasSubstr("toy_"));
  EXPECT_GT(result.time_us, 0);
  EXPECT_EQ(result.failures, static_cast<int>(std::size(kExpected)));

  problem = complete(*lab.templates.find_op("toy"), problem);
  const std::vector<Trial> trials = lab.store.trials(cuda::hardware_class(lab.device), problem);
  for (const Expectation& expected : kExpected) {
    const auto trial = std::find_if(trials.begin(), trials.end(),
                                    [&](const Trial& each) { return each.template_name == expected.template_name; });
    ASSERT_NE(trial, trials.end()) << expected.template_name;
    ASSERT_TRUE(trial->failure) << expected.template_name << " was taken for good";
    EXPECT_EQ(trial->failure->kind, expected.kind) << expected.template_name << ": " << trial->failure->message;
    EXPECT_THAT(trial->failure->message, HasSubstr(expected.message)) << expected.template_name;
    std::printf("%-14s %-13s %s\n", expected.template_name, to_string(trial->failure->kind),
                trial->failure->message.c_str());
  }
  for (const Trial& trial : trials) {
    if (trial.template_name.starts_with("toy_")) {
      EXPECT_TRUE(trial.timing) << describe(trial.template_name, trial.config) << ": " << trial.failure->message;
    }
  }

  // Nothing else is disturbed: the same GPU goes on in the same run.
  problem.dims["N"] = 12345;
  lab.options.templates = {"toy_unrolled"};
  EXPECT_FALSE(lab.tune(problem).failed);
}

}  // namespace
}  // namespace kiln::tuner
