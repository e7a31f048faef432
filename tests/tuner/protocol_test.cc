#include "tuner/worker/protocol.h"

#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln::tuner::protocol {
namespace {

// As over the channel.
Json through_cbor(const Json& message) { return Json::from_cbor(Json::to_cbor(message)); }

TEST(ProtocolTest, AJobSurvivesTheChannel) {
  MeasureJob job;
  job.problem = {.op = "gemm",
                 .dims = {{"M", 4096}},
                 .dtypes = {{"a", bf16}},
                 .choices = {{"a_layout", "row"}},
                 .alignments = {{"a", 16}}};
  Candidate candidate;
  candidate.template_name = "sm90_gemm";
  candidate.template_digest = "abc";
  candidate.config = {{"BM", 128}, {"BN", -1}};
  candidate.code = {.cubin = std::string("\x7f"
                                         "ELF\0\xff",
                                         6),
                    .symbols = {"_Z1a", "_Z1b"}};
  candidate.reference = 1;
  candidate.checked_error = 1e-3;
  job.candidates = {candidate};
  job.references = {{.template_name = "reference_gemm",
                     .template_digest = "d",
                     .config = {{"TILE", 64}},
                     .own_launches = true,
                     .code = candidate.code}};
  job.check_cubin = candidate.code.cubin;
  job.check_symbols = {{"kiln::check::poison<kiln::bf16>", "_Z6poison"}};
  job.peers = {"cublaslt_best"};
  job.rounds = 9;
  job.cold = false;
  job.screen = false;
  job.quick = true;
  job.seed = 0xffff'ffff'ffff'ffffULL;
  job.candidate_deadline = std::chrono::milliseconds(1234);

  const MeasureJob back = job_from_json(through_cbor(to_json(job)));
  EXPECT_EQ(back.problem, job.problem);
  ASSERT_EQ(back.candidates.size(), 1U);
  EXPECT_EQ(back.candidates[0].config, candidate.config);
  EXPECT_EQ(back.candidates[0].code.cubin, candidate.code.cubin);
  EXPECT_EQ(back.candidates[0].code.symbols, candidate.code.symbols);
  EXPECT_EQ(back.candidates[0].checked_error, candidate.checked_error);
  ASSERT_EQ(back.references.size(), 1U);
  EXPECT_TRUE(back.references[0].own_launches);
  EXPECT_EQ(back.check_symbols, job.check_symbols);
  EXPECT_EQ(back.peers, job.peers);
  EXPECT_EQ(back.rounds, 9);
  EXPECT_FALSE(back.cold);
  EXPECT_FALSE(back.screen);
  EXPECT_EQ(back.seed, job.seed);
  EXPECT_TRUE(back.quick);
  EXPECT_EQ(back.candidate_deadline, job.candidate_deadline);
}

TEST(ProtocolTest, EventsSurviveTheChannel) {
  Event event;
  event.kind = Event::Kind::ended;
  event.candidate = 3;
  event.outcome = Failure{FailureKind::wrong_result, "message", "log"};
  const Event back = event_from_json(through_cbor(to_json(event)));
  EXPECT_EQ(back.kind, Event::Kind::ended);
  EXPECT_EQ(back.candidate, 3U);
  EXPECT_EQ(std::get<Failure>(back.outcome).kind, FailureKind::wrong_result);
  EXPECT_EQ(std::get<Failure>(back.outcome).log, "log");
}

TEST(ProtocolTest, AnUnknownEventIsAnErrorAndAForeignMessageHasNoType) {
  Json message = to_json(Event{});
  message["kind"] = "dancing";
  EXPECT_THROW(event_from_json(message), Error);
  EXPECT_EQ(type_of(Json::array()), "");
  EXPECT_EQ(type_of(stop_message()), "stop");
}

}  // namespace
}  // namespace kiln::tuner::protocol
