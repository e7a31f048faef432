#include "tuner/measure/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/template_set.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(PeersTest, AnOpHasThePeersOfTheTableAndMostHaveNone) {
  EXPECT_THAT(peer_names("gemm"), ElementsAre("cublaslt_best", "cublaslt_default"));
  EXPECT_THAT(peer_names("toy"), IsEmpty());
}

TEST(PeersTest, AnUnknownPeerIsRefusedWithTheKnownOnes) {
  const TemplateSet templates;
  const auto op = templates.find_op("gemm");
  const Problem problem = complete(*op, Problem{.op = "gemm",
                                                .dims = {{"M", 64}, {"N", 64}, {"K", 64}},
                                                .dtypes = {{"a", bf16}},
                                                .choices = {},
                                                .alignments = {}});
  try {
    make_peer("cublas", *op, problem);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), HasSubstr("cublaslt_default"));
  }
}

TEST(PeersTest, AnEmptyProductHasNoPeer) {
  const TemplateSet templates;
  const auto op = templates.find_op("gemm");
  const Problem problem = complete(*op, Problem{.op = "gemm",
                                                .dims = {{"M", 64}, {"N", 64}, {"K", 0}},
                                                .dtypes = {{"a", bf16}},
                                                .choices = {},
                                                .alignments = {}});
  // Not found where the library is not installed, else unsupported: in either case no crash.
  EXPECT_THROW(make_peer("cublaslt_default", *op, problem), Error);
}

}  // namespace
}  // namespace kiln::tuner
