#include "tuner/worker/process_measurer.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln::tuner {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

enum Fault { kNone, kAbort, kHang, kLost, kWrong, kAbortAfterEnd, kSlow, kNonsense };

class CollectingSink : public MeasureSink {
 public:
  std::map<std::size_t, Outcome> outcomes;
  std::size_t stop_after = 1000;

  void ended(std::size_t candidate, const Outcome& outcome) override {
    EXPECT_TRUE(outcomes.emplace(candidate, outcome).second) << candidate << " ended twice";
  }
  bool stop_requested() override { return outcomes.size() >= stop_after; }

  const Failure& failure(std::size_t candidate) const { return std::get<Failure>(outcomes.at(candidate)); }
  bool timed(std::size_t candidate) const { return std::holds_alternative<Timing>(outcomes.at(candidate)); }
};

class ProcessMeasurerTest : public testing::Test {
 protected:
  std::filesystem::path starts = std::filesystem::path(testing::TempDir()) / ("starts-" + std::to_string(getpid()));
  CollectingSink sink;

  void SetUp() override { std::filesystem::remove(starts); }
  void TearDown() override { std::filesystem::remove(starts); }

  WorkerOptions options(const std::string& uuid = "GPU-fictional") const {
    WorkerOptions worker;
    worker.helper = KILN_FAKE_WORKER;
    worker.arguments = {starts.string()};
    worker.gpu_uuid = uuid;
    worker.grace = milliseconds(2000);
    return worker;
  }

  static MeasureJob job(const std::vector<int>& faults) {
    MeasureJob result;
    result.problem.op = "toy";
    for (const int fault : faults) {
      Candidate candidate;
      candidate.template_name = "toy";
      candidate.config = {{"FAULT", fault}};
      result.candidates.push_back(candidate);
    }
    result.candidate_deadline = milliseconds(700);
    return result;
  }

  int count_starts() const {
    std::ifstream file(starts);
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
  }
};

TEST_F(ProcessMeasurerTest, GoodCandidatesNeedOneWorker) {
  ProcessMeasurer measurer(options());
  MeasureJob two = job({kNone, kNone});
  two.peers = {"library"};
  const MeasureReport report = measurer.measure(two, sink);
  EXPECT_TRUE(sink.timed(0) && sink.timed(1));
  EXPECT_DOUBLE_EQ(report.peers.at("library").median_us, 99);
  EXPECT_FALSE(report.stopped);
  EXPECT_EQ(count_starts(), 1);
}

TEST_F(ProcessMeasurerTest, EveryFaultIsBlamedOnItsCandidateAndTheOthersGoOn) {
  ProcessMeasurer measurer(options());
  measurer.measure(job({kNone, kAbort, kHang, kLost, kWrong, kNone}), sink);
  ASSERT_EQ(sink.outcomes.size(), 6U);
  EXPECT_TRUE(sink.timed(0));
  EXPECT_EQ(sink.failure(1).kind, FailureKind::crash);
  EXPECT_THAT(sink.failure(1).message, HasSubstr("signal 6"));
  EXPECT_THAT(sink.failure(1).log, HasSubstr("about to abort"));
  EXPECT_EQ(sink.failure(2).kind, FailureKind::timeout);
  EXPECT_EQ(sink.failure(3).kind, FailureKind::crash);
  EXPECT_THAT(sink.failure(3).message, HasSubstr("ILLEGAL_ADDRESS"));
  EXPECT_EQ(sink.failure(4).kind, FailureKind::wrong_result);
  EXPECT_TRUE(sink.timed(5));
  EXPECT_EQ(count_starts(), 4) << "one, and one after each that took its worker down";
}

TEST_F(ProcessMeasurerTest, ACrashAfterAnOutcomeDoesNotTakeItBack) {
  ProcessMeasurer measurer(options());
  measurer.measure(job({kAbortAfterEnd, kNone}), sink);
  EXPECT_TRUE(sink.timed(0));
  EXPECT_TRUE(sink.timed(1));
}

TEST_F(ProcessMeasurerTest, AWorkerThatTalksNonsenseIsACrash) {
  ProcessMeasurer measurer(options());
  measurer.measure(job({kNonsense, kNone}), sink);
  EXPECT_EQ(sink.failure(0).kind, FailureKind::crash);
  EXPECT_TRUE(sink.timed(1));
}

TEST_F(ProcessMeasurerTest, APeerThatCrashesCostsOnlyThePeers) {
  ProcessMeasurer measurer(options());
  MeasureJob one = job({kNone});
  one.peers = {"crashing"};
  const MeasureReport report = measurer.measure(one, sink);
  EXPECT_TRUE(sink.timed(0));
  EXPECT_EQ(report.peer_failures.count("crashing"), 1U);
}

TEST_F(ProcessMeasurerTest, AStopEndsTheJobSoonAndKeepsWhatEnded) {
  ProcessMeasurer measurer(options());
  sink.stop_after = 2;
  MeasureJob long_job = job(std::vector<int>(50, kSlow));
  const auto start = std::chrono::steady_clock::now();
  const MeasureReport report = measurer.measure(long_job, sink);
  EXPECT_TRUE(report.stopped);
  EXPECT_GE(sink.outcomes.size(), 2U);
  EXPECT_LT(sink.outcomes.size(), 20U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST_F(ProcessMeasurerTest, AStopEndsAHangingWorkerToo) {
  ProcessMeasurer measurer(options());
  sink.stop_after = 1;
  MeasureJob hanging = job({kNone, kHang});
  hanging.candidate_deadline = std::chrono::minutes(10);
  EXPECT_TRUE(measurer.measure(hanging, sink).stopped);
  EXPECT_EQ(sink.outcomes.size(), 1U);
}

TEST_F(ProcessMeasurerTest, RenewStartsAFreshProcess) {
  ProcessMeasurer measurer(options());
  measurer.measure(job({kNone}), sink);
  measurer.renew();
  CollectingSink second;
  measurer.measure(job({kNone}), second);
  EXPECT_EQ(count_starts(), 2);
}

TEST_F(ProcessMeasurerTest, AGpuThatCannotBeOpenedGetsNoMoreWork) {
  ProcessMeasurer measurer(options("GPU-broken"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      measurer.measure(job({kNone}), sink);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::launch_failed);
      EXPECT_THAT(error.what(), HasSubstr("no GPU has this UUID"));
    }
  }
  EXPECT_EQ(count_starts(), 1);
}

}  // namespace
}  // namespace kiln::tuner
