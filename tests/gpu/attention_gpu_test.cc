// Every attention template on a real GPU: against the reference on random problems over every feature, and by itself
// where the right answer is known. Last, the typed op as an application uses it.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "cuda/memory.h"
#include "kernel/space.h"
#include "kiln/kiln.h"
#include "runtime/lookup.h"
#include "tests/gpu/gpu_lab.h"
#include "tests/gpu/host_bf16.h"
#include "tests/gpu/random_cases.h"
#include "tests/gpu/runtime_fixture.h"
#include "tests/message_of.h"
#include "tuner/measure/loaded_kernel.h"

namespace kiln::tuner {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// ---- Random problems ----

class ProblemDraw {
 public:
  ProblemDraw(const KernelTemplate& t, DType dtype, Random& random)
      : t_(t), dtype_(dtype), random_(random), max_extent_(setting("KILN_TEST_MAX_EXTENT", 700)) {
    // What is compiled comes from few kinds, in which every value of every feature occurs; the rest is drawn afresh.
    const std::vector<std::pair<int, int>> heads{{128, 128}, {64, 64},  {192, 128}, {96, 96}, {256, 256},
                                                 {128, 64},  {72, 200}, {80, 80},   {33, 17}};
    const std::vector<const char*> masks{"causal", "none", "window"};
    const std::vector<DType> outputs{dtype, f32, dtype, dtype == bf16 ? f16 : bf16, dtype};
    for (std::size_t i = 0; i < 27; ++i) {
      const auto [d, d_v] = heads[i % heads.size()];
      kinds_.push_back({.d = d,
                        .d_v = d_v,
                        .mask = masks[(i + i / heads.size()) % masks.size()],
                        .softcap = i % 4 == 3,
                        .lse = i % 2 == 0,
                        .cumulative = (i + 2 * (i / heads.size())) % 3 == 1,
                        .output = outputs[i % outputs.size()]});
    }
  }

  Problem next() {
    const Kind& kind = random_.pick(kinds_);
    Problem problem;
    problem.op = "attention";
    const std::int64_t kv_heads = 1 + random_.upto(2);
    const std::int64_t queries = extent();
    problem.dims = {{"B", 1 + random_.upto(2)},
                    {"H_kv", kv_heads},
                    {"H", kv_heads * random_.pick(std::vector<std::int64_t>{1, 1, 2, 3, 8})},
                    {"S_q", queries},
                    {"S_k", random_.one_in(3)    ? queries
                            : random_.one_in(30) ? 0
                                                 : extent()},
                    {"D", kind.d},
                    {"D_v", kind.d_v}};
    if (kind.mask == "window") problem.dims["W"] = random_.one_in(4) ? 0 : random_.upto(2 * queries);
    problem.dtypes = {{"q", dtype_}, {"o", kind.output}};
    problem.choices = {
        {"mask", kind.mask}, {"softcap", kind.softcap ? "tanh" : "none"}, {"lse", kind.lse ? "stored" : "none"}};
    if (kind.cumulative) draw_totals(problem);
    const std::int64_t query_tokens = kind.cumulative ? problem.dims.at("T_q") : queries;
    const std::int64_t key_tokens = problem.dims.at(kind.cumulative ? "T_k" : "S_k");
    const bool aligned = !random_.one_in(4);
    const std::int64_t unit = aligned ? 8 : 1;
    lay_out(problem, "q", problem.dims.at("H"), query_tokens, kind.d, unit);
    lay_out(problem, "k", kv_heads, key_tokens, kind.d, unit);
    lay_out(problem, "v", kv_heads, key_tokens, kind.d_v, unit);
    lay_out(problem, "o", problem.dims.at("H"), query_tokens, kind.d_v, unit);
    problem = complete(*t_.op, problem);
    if (!aligned) {
      for (const OperandSpec& operand : t_.op->operands) {
        if (problem.alignments.count(operand.name) == 0) continue;  // the problem has no such operand
        if (random_.one_in(2)) problem.alignments[operand.name] = size_of(problem.dtypes.at(operand.dtype));
      }
    }
    return complete(*t_.op, problem);
  }

 private:
  struct Kind {
    int d, d_v;
    std::string mask;
    bool softcap, lse, cumulative;
    DType output;
  };

  std::int64_t extent() { return 1 + random_.upto(random_.one_in(6) ? 16 : max_extent_ - 1); }

  // More sequences than where lengths are equal; totals from that of one sequence alone to more than all can have, so
  // that some tokens are of none. Where queries are as keys, they often are the same tokens.
  void draw_totals(Problem& problem) {
    problem.choices["lengths"] = "cumulative";
    problem.dims["B"] = 1 + random_.upto(5);
    const auto total = [&](std::int64_t longest) {
      const std::int64_t most = problem.dims.at("B") * longest;
      return random_.one_in(5) ? most + random_.upto(9) : longest + random_.upto(most - longest);
    };
    problem.dims["T_q"] = total(problem.dims.at("S_q"));
    const bool same = problem.dims.at("S_k") == problem.dims.at("S_q") && random_.one_in(2);
    problem.dims["T_k"] = same ? problem.dims.at("T_q") : total(problem.dims.at("S_k"));
  }

  // Strides of one operand: any nesting of tokens, heads and sequences, each level with some elements to spare.
  void lay_out(Problem& problem, const std::string& operand, std::int64_t heads, std::int64_t tokens, std::int64_t d,
               std::int64_t unit) {
    if (random_.one_in(3)) return;  // packed, as the op has it
    struct Level {
      const char* name;
      std::int64_t extent;
    };
    const Level token{"_row", tokens};
    const Level head{"_head", heads};
    const Level sequence{"_batch", problem.dims.at("B")};
    const std::vector<std::array<Level, 3>> nestings{
        {head, token, sequence}, {token, head, sequence}, {head, sequence, token}, {token, sequence, head}};
    std::int64_t span = (d + unit - 1) / unit * unit;
    for (const Level& level : random_.pick(nestings)) {
      const std::int64_t spare = random_.one_in(2) ? unit * random_.upto(3) : 0;
      problem.dims[operand + level.name] = span + spare;
      span = (span + spare) * std::max<std::int64_t>(1, level.extent);
    }
    // As in a tensor that holds more than this operand for each token.
    if (random_.one_in(4) || problem.choices.count("lengths") != 0) problem.dims.erase(operand + "_batch");
  }

  const KernelTemplate& t_;
  const DType dtype_;
  Random& random_;
  const int max_extent_;
  std::vector<Kind> kinds_;
};

class RandomAttentionGpuTest : public GpuTest, public testing::WithParamInterface<TemplateAndDType> {};

TEST_P(RandomAttentionGpuTest, SmallRandomProblemsComeOutAsTheReferenceSays) {
  check_random_problems<ProblemDraw>(GetParam(), 20261202, 3);
}

INSTANTIATE_TEST_SUITE_P(Attention, RandomAttentionGpuTest,
                         testing::Values(TemplateAndDType{"sm80_attention", bf16},
                                         TemplateAndDType{"sm80_attention", f16},
                                         TemplateAndDType{"sm90_attention", bf16},
                                         TemplateAndDType{"sm90_attention", f16}),
                         instance_name);

// ---- Known answers ----

// Elements of one head after another: [heads, tokens, d].
using Values = std::vector<float>;

Values random_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Values values(count);
  for (float& value : values) value = from_bf16(to_bf16(normal(engine)));
  return values;
}

struct Attended {
  Values o;
  Values lse;
};

// Where sequences of these lengths begin, the first behind `before` tokens of none, and where the last ends.
std::vector<std::int32_t> offsets_of(const std::vector<int>& lengths, int before) {
  std::vector<std::int32_t> offsets{before};
  for (const int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

cuda::DeviceBuffer upload_offsets(const std::vector<std::int32_t>& offsets) {
  cuda::DeviceBuffer buffer(offsets.size() * sizeof(std::int32_t));
  cuda::check(cuda::driver().cuMemcpyHtoD(buffer.get(), offsets.data(), buffer.size()), "cuMemcpyHtoD");
  return buffer;
}

// The tokens of one head, on the host.
struct Head {
  const Values& values;
  std::size_t first = 0;         // element of token 0
  std::size_t token_stride = 0;  // in elements
  std::size_t d = 0;

  double at(std::int64_t token, std::size_t i) const {
    return values.at(first + static_cast<std::size_t>(token) * token_stride + i);
  }
};

struct HostRow {
  std::vector<double> o;
  double lse = -std::numeric_limits<double>::infinity();
};

// One query over the keys from `begin` to before `end`, maybe none.
HostRow attend_on_host(const Head& q, const Head& k, const Head& v, std::int64_t query, std::int64_t begin,
                       std::int64_t end, double scale) {
  HostRow row{.o = std::vector<double>(v.d)};
  std::vector<double> logits;
  for (std::int64_t key = begin; key < end; ++key) {
    double sum = 0;
    for (std::size_t i = 0; i < q.d; ++i) sum += q.at(query, i) * k.at(key, i);
    logits.push_back(sum * scale);
  }
  if (logits.empty()) return row;
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double logit : logits) total += std::exp(logit - largest);
  for (std::int64_t key = begin; key < end; ++key) {
    const double weight = std::exp(logits[static_cast<std::size_t>(key - begin)] - largest) / total;
    for (std::size_t i = 0; i < v.d; ++i) row.o[i] += weight * v.at(key, i);
  }
  row.lse = largest + std::log(total);
  return row;
}

// One sequence in bf16, O in f32, through one template in the configuration that its cost model likes best.
class AttentionTemplateGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<MeasuringDevice>(cuda::list_devices().at(0).uuid);
    builds_ = std::make_unique<CaseBuilder>(*device_);
    template_ = templates_.find(GetParam());
    if (target_arch(*template_, device_->info()).empty()) GTEST_SKIP() << GetParam() << " does not run on this GPU";
  }

  Problem problem(const std::string& text) const {
    return problem_from_text(*template_->op, parse_problem_text("attention", text + ",dtype=bf16,o=f32,lse=stored"));
  }

  // Outputs are NaN before. `problem` is of one sequence with heads before tokens: see `heads_first`.
  Attended attend(const Problem& problem, const Values& q, const Values& k, const Values& v, float scale,
                  float cap = 1.0F) {
    const auto rows = static_cast<std::size_t>(problem.dims.at("H") * problem.dims.at("S_q"));
    Attended result{.o = Values(rows * static_cast<std::size_t>(problem.dims.at("D_v")), kNan),
                    .lse = Values(rows, kNan)};
    launch(problem, {q, k, v}, {}, {scale, cap}, result);
    return result;
  }

  // `result` holds what the outputs hold before, and then after. `offsets` are cu_q and cu_k, of cumulative lengths.
  void launch(const Problem& problem, const std::array<std::reference_wrapper<const Values>, 3>& inputs,
              const std::vector<std::vector<std::int32_t>>& offsets, const std::array<float, 2>& values,
              Attended& result) {
    const auto code_for = predict(*template_, problem, device_->info()).config;
    const auto code = builds_->build(*template_, problem, code_for);
    if (!code) return;
    const LoadedKernel kernel(*template_, template_->manifest.launches, problem, code_for, *code, device_->info(),
                              device_->handle());
    std::vector<cuda::DeviceBuffer> buffers;
    for (const Values& input : inputs) buffers.push_back(upload(input));
    buffers.push_back(poisoned(result.o));
    buffers.push_back(poisoned(result.lse));
    for (const std::vector<std::int32_t>& each : offsets) buffers.push_back(upload_offsets(each));
    std::array<CUdeviceptr, 7> pointers{};
    for (std::size_t i = 0; i < buffers.size(); ++i) pointers.at(i) = buffers[i].get();
    const cuda::DeviceBuffer workspace(kernel.workspace_bytes());
    std::array<ScalarValue, 2> scalars{};
    for (std::size_t i = 0; i < scalars.size(); ++i) scalars.at(i).f32 = values.at(i);
    kernel.launch(pointers, scalars, workspace.get(), device_->stream());
    cuda::check(cuda::driver().cuStreamSynchronize(device_->stream()), "cuStreamSynchronize");
    download(buffers[3], result.o);
    download(buffers[4], result.lse);
  }

  static std::string heads_first(int heads, int queries, int keys, int d) {
    const auto of = [](const char* operand, int tokens, int width) {
      const std::string name = operand;
      return "," + name + "_row=" + std::to_string(width) + "," + name +
             "_head=" + std::to_string(std::max(1, tokens) * width);
    };
    return "b=1,h=" + std::to_string(heads) + ",s_q=" + std::to_string(queries) + ",s_k=" + std::to_string(keys) +
           ",d=" + std::to_string(d) + of("q", queries, d) + of("k", keys, d) + of("v", keys, d) + of("o", queries, d);
  }

 private:
  static cuda::DeviceBuffer upload(const Values& values) {
    std::vector<std::uint16_t> bits;
    bits.reserve(values.size());
    for (const float value : values) bits.push_back(to_bf16(value));
    cuda::DeviceBuffer buffer(std::max<std::size_t>(16, bits.size() * 2));
    if (!bits.empty())
      cuda::check(cuda::driver().cuMemcpyHtoD(buffer.get(), bits.data(), bits.size() * 2), "cuMemcpyHtoD");
    return buffer;
  }
  static cuda::DeviceBuffer poisoned(const Values& values) {
    cuda::DeviceBuffer buffer(values.size() * sizeof(float));
    cuda::check(cuda::driver().cuMemcpyHtoD(buffer.get(), values.data(), buffer.size()), "cuMemcpyHtoD");
    return buffer;
  }
  static void download(const cuda::DeviceBuffer& buffer, Values& values) {
    cuda::check(cuda::driver().cuMemcpyDtoH(values.data(), buffer.get(), values.size() * sizeof(float)),
                "cuMemcpyDtoH");
  }

  TemplateSet templates_;
  std::unique_ptr<MeasuringDevice> device_;
  std::unique_ptr<CaseBuilder> builds_;
  TemplatePtr template_;
};

TEST_P(AttentionTemplateGpuTest, SmallRowsThatSeeNoKeyAreZeroAndNeverNan) {
  constexpr int kQueries = 200;
  constexpr int kKeys = 70;
  constexpr int kD = 64;
  const Values q = random_values(kQueries * kD, 1);
  const Values k = random_values(kKeys * kD, 2);
  const Values v = random_values(kKeys * kD, 3);
  for (const char* mask : {"causal", "window,w=0", "window,w=9"}) {
    SCOPED_TRACE(mask);
    const Attended got = attend(problem(heads_first(1, kQueries, kKeys, kD) + ",mask=" + mask), q, k, v, 0.125F);
    ASSERT_EQ(got.lse.size(), std::size_t{kQueries});
    for (int row = 0; row < kQueries; ++row) {
      const Values o(got.o.begin() + row * kD, got.o.begin() + (row + 1) * kD);
      const float lse = got.lse[static_cast<std::size_t>(row)];
      if (row < kQueries - kKeys) {
        EXPECT_THAT(o, Each(0.0F)) << "row " << row;
        EXPECT_EQ(lse, -kInfinity) << "row " << row;
      } else {
        EXPECT_TRUE(std::all_of(o.begin(), o.end(), [](float x) { return std::isfinite(x); })) << "row " << row;
        EXPECT_TRUE(std::isfinite(lse)) << "row " << row;
      }
    }
    // The first query that sees any sees the first key alone.
    for (int d = 0; d < kD; ++d)
      EXPECT_FLOAT_EQ(got.o[static_cast<std::size_t>((kQueries - kKeys) * kD + d)], v[static_cast<std::size_t>(d)]);
  }
}

TEST_P(AttentionTemplateGpuTest, SmallWithoutKeysAllIsZero) {
  const Values q = random_values(2 * 100 * 64, 1);
  for (const char* mask : {"none", "causal", "window,w=5"}) {
    const Attended got = attend(problem(heads_first(2, 100, 0, 64) + ",mask=" + mask), q, {}, {}, 0.125F);
    EXPECT_EQ(got.lse.size(), 200U);
    EXPECT_THAT(got.o, Each(0.0F)) << mask;
    EXPECT_THAT(got.lse, Each(-kInfinity)) << mask;
  }
}

TEST_P(AttentionTemplateGpuTest, SmallHugeLogitsDoNotOverflow) {
  constexpr int kTokens = 130;
  constexpr int kD = 64;
  Values q(kTokens * kD, 1e15F);
  Values k(kTokens * kD);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = from_bf16(to_bf16(1e15F * static_cast<float>(1 + i / kD)));
  const Values v = random_values(kTokens * kD, 3);
  const Attended got = attend(problem(heads_first(1, kTokens, kTokens, kD)), q, k, v, 0.125F);
  // The last key's logit is so much the largest that its value is all there is.
  for (std::size_t i = 0; i < got.o.size(); ++i) EXPECT_EQ(got.o[i], v[(kTokens - 1) * kD + i % kD]) << i;
  for (const float lse : got.lse) EXPECT_NEAR(lse / (0.125F * 64 * 130 * 1e30F), 1.0F, 0.02F);
  for (float& x : k) x = -x;
  const Attended negative = attend(problem(heads_first(1, kTokens, kTokens, kD)), q, k, v, 0.125F);
  for (std::size_t i = 0; i < negative.o.size(); ++i) EXPECT_EQ(negative.o[i], v[i % kD]) << i;
  for (const float lse : negative.lse) EXPECT_NEAR(lse / (-0.125F * 64 * 1e30F), 1.0F, 0.02F);
}

TEST_P(AttentionTemplateGpuTest, SmallKeysWhoseLogitIsMinusInfinityHaveNoWeight) {
  constexpr int kTokens = 100;
  constexpr int kD = 64;
  const Values q(kTokens * kD, 1.0F);
  Values k = random_values(kTokens * kD, 2);
  Values v = random_values(kTokens * kD, 3);
  for (int key = 0; key < kTokens; ++key) {
    if (key % 3 == 0) k[static_cast<std::size_t>(key * kD)] = -kInfinity;
    // Every key that counts has one value, so that is what comes out, however they weigh.
    for (int d = 0; d < kD; ++d) v[static_cast<std::size_t>(key * kD + d)] = key % 3 == 0 ? 100.0F : 2.0F;
  }
  const Attended got = attend(problem(heads_first(1, kTokens, kTokens, kD)), q, k, v, 0.125F);
  for (const float x : got.o) EXPECT_NEAR(x, 2.0F, 2e-2F);
  for (const float x : got.lse) EXPECT_TRUE(std::isfinite(x));
  for (int key = 0; key < kTokens; ++key) k[static_cast<std::size_t>(key * kD)] = -kInfinity;
  const Attended none = attend(problem(heads_first(1, kTokens, kTokens, kD)), q, k, v, 0.125F);
  EXPECT_THAT(none.o, Each(0.0F));
  EXPECT_THAT(none.lse, Each(-kInfinity));
}

TEST_P(AttentionTemplateGpuTest, SmallANanInAQueryComesOutInItsRowAlone) {
  constexpr int kTokens = 100;
  constexpr int kD = 64;
  Values q = random_values(kTokens * kD, 1);
  q[17 * kD + 5] = kNan;
  const Values k = random_values(kTokens * kD, 2);
  const Values v = random_values(kTokens * kD, 3);
  for (const char* softcap : {"none", "tanh"}) {
    const Attended got =
        attend(problem(heads_first(1, kTokens, kTokens, kD) + ",softcap=" + softcap), q, k, v, 0.125F, 5.0F);
    for (std::size_t i = 0; i < got.o.size(); ++i) EXPECT_EQ(std::isnan(got.o[i]), i / kD == 17) << i;
    for (std::size_t i = 0; i < got.lse.size(); ++i) EXPECT_EQ(std::isnan(got.lse[i]), i == 17) << i;
  }
}

TEST_P(AttentionTemplateGpuTest, SmallEveryScaleMeansWhatItSays) {
  constexpr int kTokens = 90;
  constexpr int kD = 64;
  const Values q = random_values(kTokens * kD, 1);
  const Values k = random_values(kTokens * kD, 2);
  const Values v = random_values(kTokens * kD, 3);
  const Problem all = problem(heads_first(1, kTokens, kTokens, kD));
  // 0: every key weighs the same.
  const Attended flat = attend(all, q, k, v, 0.0F);
  for (int d = 0; d < kD; ++d) {
    double mean = 0;
    for (int key = 0; key < kTokens; ++key) mean += double{v[static_cast<std::size_t>(key * kD + d)]} / kTokens;
    EXPECT_NEAR(flat.o[static_cast<std::size_t>(d)], mean, 2e-3) << d;
  }
  for (const float lse : flat.lse) EXPECT_NEAR(lse, std::log(float{kTokens}), 1e-4F);
  // Negative: as with the keys negated.
  Values negated = k;
  for (float& x : negated) x = -x;
  const Attended minus = attend(all, q, k, v, -0.2F);
  const Attended plus = attend(all, q, negated, v, 0.2F);
  for (std::size_t i = 0; i < minus.o.size(); ++i) EXPECT_NEAR(minus.o[i], plus.o[i], 2e-2F) << i;
  for (std::size_t i = 0; i < minus.lse.size(); ++i) EXPECT_NEAR(minus.lse[i], plus.lse[i], 1e-3F) << i;
  // NaN: nothing else comes out.
  for (const float x : attend(all, q, k, v, kNan).o) EXPECT_TRUE(std::isnan(x));
}

// Sequences packed one after another, some without queries, without keys or without both, behind and before tokens of
// none. All of Q, K and V that is not of every other sequence is NaN, as are tokens of no sequence.
TEST_P(AttentionTemplateGpuTest, SmallSequencesOfTheirOwnLengthsKeepToThemselves) {
  constexpr int kHeads = 2;
  constexpr std::size_t kD = 64;
  constexpr int kSpare = 7;
  constexpr float kUntouched = 777.0F;
  const std::vector<int> queries{40, 0, 300, 33, 0, 50, 5, 129};
  const std::vector<int> keys{100, 20, 0, 500, 0, 20, 64, 129};
  const std::vector<std::int32_t> cu_q = offsets_of(queries, kSpare);
  const std::vector<std::int32_t> cu_k = offsets_of(keys, kSpare);
  const int total_q = cu_q.back() + kSpare;
  const int total_k = cu_k.back() + kSpare;
  const auto element = [](int total, int head, int token) {
    return (static_cast<std::size_t>(head) * static_cast<std::size_t>(total) + static_cast<std::size_t>(token)) * kD;
  };
  const Values q = random_values(element(total_q, kHeads, 0), 1);
  const Values k = random_values(element(total_k, kHeads, 0), 2);
  const Values v = random_values(element(total_k, kHeads, 0), 3);
  // The sequences with an odd index alone, or with an even one.
  const auto only = [&](Values values, const std::vector<std::int32_t>& cu, int total, std::size_t odd) {
    for (int token = 0; token < total; ++token) {
      const auto after = std::upper_bound(cu.begin(), cu.end(), token);
      const auto sequence = static_cast<std::size_t>(after - cu.begin()) - 1;
      if (after != cu.begin() && after != cu.end() && sequence % 2 == odd) continue;
      for (int head = 0; head < kHeads; ++head) {
        std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(element(total, head, token)), kD, kNan);
      }
    }
    return values;
  };
  const std::string strides =
      ",q_row=64,q_head=" + std::to_string(total_q * 64) + ",o_row=64,o_head=" + std::to_string(total_q * 64) +
      ",k_row=64,k_head=" + std::to_string(total_k * 64) + ",v_row=64,v_head=" + std::to_string(total_k * 64);
  for (const char* mask : {"none", "causal", "window,w=9"}) {
    const Problem p = problem("b=8,h=2,s_q=300,s_k=500,d=64,lengths=cumulative,t_q=" + std::to_string(total_q) +
                              ",t_k=" + std::to_string(total_k) + strides + ",mask=" + mask);
    for (const std::size_t odd : {0U, 1U}) {
      SCOPED_TRACE(std::string(mask) + (odd == 1 ? ", odd sequences" : ", even sequences"));
      Attended got{.o = Values(q.size(), kUntouched), .lse = Values(q.size() / kD, kUntouched)};
      const Values q_only = only(q, cu_q, total_q, odd);
      const Values k_only = only(k, cu_k, total_k, odd);
      const Values v_only = only(v, cu_k, total_k, odd);
      launch(p, {q_only, k_only, v_only}, {cu_q, cu_k}, {0.125F, 1.0F}, got);
      for (int head = 0; head < kHeads; ++head) {
        const Head q_head{q, element(total_q, head, 0), kD, kD};
        const Head k_head{k, element(total_k, head, 0), kD, kD};
        const Head v_head{v, element(total_k, head, 0), kD, kD};
        for (int token : {0, kSpare - 1, total_q - kSpare, total_q - 1}) {
          const std::size_t at = element(total_q, head, token);
          EXPECT_EQ(got.lse[at / kD], kUntouched) << "token " << token << " of no sequence";
          for (std::size_t i = 0; i < kD; ++i) EXPECT_EQ(got.o[at + i], kUntouched) << "token " << token;
        }
        for (std::size_t b = odd; b < queries.size(); b += 2) {
          for (int query = 0; query < queries[b]; ++query) {
            const int here = query + keys[b] - queries[b];  // the key where it stands
            const int end = mask == std::string("none") ? keys[b] : std::max(0, here + 1);
            const int begin = mask[0] == 'w' ? std::clamp(here - 9, 0, end) : 0;
            const HostRow want =
                attend_on_host(q_head, k_head, v_head, cu_q[b] + query, cu_k[b] + begin, cu_k[b] + end, 0.125);
            const std::size_t at = element(total_q, head, cu_q[b] + query);
            double worst = 0;
            // Not std::max, which drops a NaN.
            for (std::size_t i = 0; i < kD; ++i) worst += std::abs(got.o[at + i] - want.o[i]);
            ASSERT_LE(worst / kD, end == begin ? 0.0 : 1e-2) << "sequence " << b << " query " << query;
            if (end == begin) {
              ASSERT_EQ(got.lse[at / kD], -kInfinity) << "sequence " << b << " query " << query;
            } else {
              ASSERT_NEAR(got.lse[at / kD], want.lse, 1e-2) << "sequence " << b << " query " << query;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, AttentionTemplateGpuTest,
                         testing::Values("reference_attention", "sm80_attention", "sm90_attention"),
                         [](const auto& test) { return std::string(test.param); });

// ---- The typed op ----

class TypedAttentionGpuTest : public RuntimeFixture {};

// bf16 queries, keys and values of one tensor [batch, tokens, heads + 2 · kv_heads, d], O packed; the truth on the
// host.
class PackedTensors {
 public:
  PackedTensors(Attention attention, std::size_t offset_elements)
      : a_(attention), kv_heads_(a_.kv_heads.value_or(a_.heads)), offset_(offset_elements) {
    values_ = random_values(static_cast<std::size_t>(a_.batch * a_.s_q * (a_.heads + 2 * kv_heads_) * a_.d), 11);
    std::vector<std::uint16_t> bits(offset_);
    for (const float value : values_) bits.push_back(to_bf16(value));
    input_ = cuda::DeviceBuffer(bits.size() * 2);
    cuda::check(cuda::driver().cuMemcpyHtoD(input_.get(), bits.data(), bits.size() * 2), "cuMemcpyHtoD");
    count_ = static_cast<std::size_t>(a_.batch * a_.s_q * a_.heads * a_.d);
    output_ = cuda::DeviceBuffer((count_ + offset_) * 2);
    clear();
  }

  void* q() const { return reinterpret_cast<void*>(input_.get() + offset_ * 2); }
  void* k() const { return static_cast<std::uint16_t*>(q()) + a_.heads * a_.d; }
  void* v() const { return static_cast<std::uint16_t*>(q()) + (a_.heads + kv_heads_) * a_.d; }
  void* o() const { return reinterpret_cast<void*>(output_.get() + offset_ * 2); }
  void clear() { cuda::check(cuda::driver().cuMemsetD8(output_.get(), 0xff, output_.size()), "cuMemsetD8"); }

  // Relative Frobenius error against causal attention with this scale.
  double error(double scale) const {
    cuda::check(cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
    std::vector<std::uint16_t> o(count_);
    cuda::check(cuda::driver().cuMemcpyDtoH(o.data(), output_.get() + offset_ * 2, count_ * 2), "cuMemcpyDtoH");
    double difference = 0;
    double magnitude = 0;
    for (std::int64_t b = 0; b < a_.batch; ++b) {
      for (std::int64_t h = 0; h < a_.heads; ++h) {
        for (std::int64_t i = 0; i < a_.s_q; ++i) {
          const std::vector<double> truth = row(b, h, i, scale);
          for (std::int64_t d = 0; d < a_.d; ++d) {
            const double got = from_bf16(o[static_cast<std::size_t>(((b * a_.s_q + i) * a_.heads + h) * a_.d + d)]);
            const double want = truth[static_cast<std::size_t>(d)];
            difference += (got - want) * (got - want);
            magnitude += want * want;
          }
        }
      }
    }
    return std::sqrt(difference / magnitude);
  }

 private:
  double at(std::int64_t b, std::int64_t token, std::int64_t head, std::int64_t d) const {
    return values_[static_cast<std::size_t>(((b * a_.s_q + token) * (a_.heads + 2 * kv_heads_) + head) * a_.d + d)];
  }
  std::vector<double> row(std::int64_t b, std::int64_t h, std::int64_t i, double scale) const {
    const std::int64_t key_head = a_.heads + h / (a_.heads / kv_heads_);
    std::vector<double> logits;
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < a_.d; ++d) sum += at(b, i, h, d) * at(b, j, key_head, d);
      logits.push_back(sum * scale);
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    std::vector<double> result(static_cast<std::size_t>(a_.d));
    for (std::int64_t j = 0; j <= i; ++j) {
      const double weight = std::exp(logits[static_cast<std::size_t>(j)] - largest);
      total += weight;
      for (std::int64_t d = 0; d < a_.d; ++d)
        result[static_cast<std::size_t>(d)] += weight * at(b, j, key_head + kv_heads_, d);
    }
    for (double& x : result) x /= total;
    return result;
  }

  Attention a_;
  std::int64_t kv_heads_;
  std::size_t offset_;
  std::size_t count_ = 0;
  Values values_;
  cuda::DeviceBuffer input_, output_;
};

constexpr double kTolerance = 5e-3;

Attention packed_attention() {
  Attention attention{.batch = 2, .heads = 4, .kv_heads = 2, .s_q = 77, .d = 64, .mask = Mask::causal};
  attention.q_strides = attention.k_strides = attention.v_strides = packed_qkv(4, 2, 77, 64);
  return attention;
}

TEST_F(TypedAttentionGpuTest, APreparedAttentionIsRightOnOneTensorOfQueriesKeysAndValues) {
  const auto attend = runtime_->prepare(packed_attention());
  PackedTensors tensors(packed_attention(), 0);
  for (int repeat = 0; repeat < 3; ++repeat) {
    tensors.clear();
    attend(stream_.get(), tensors.q(), tensors.k(), tensors.v(), tensors.o());
    EXPECT_LT(tensors.error(0.125), kTolerance);
  }
}

TEST_F(TypedAttentionGpuTest, MisalignedPointersFallToATemplateThatAcceptsThem) {
  const auto attend = runtime_->prepare(packed_attention());
  PackedTensors tensors(packed_attention(), 1);
  attend(stream_.get(), tensors.q(), tensors.k(), tensors.v(), tensors.o());
  EXPECT_LT(tensors.error(0.125), kTolerance);
  Attention promised_little = packed_attention();
  promised_little.alignment = 2;
  EXPECT_NE(runtime_->prepare(promised_little).provenance().template_name, "reference_attention");
}

TEST_F(TypedAttentionGpuTest, AnUnpreparedCallTakesAnyScale) {
  PackedTensors tensors(packed_attention(), 0);
  for (const float scale : {0.125F, -0.5F, 0.125F}) {
    Attention attention = packed_attention();
    attention.scale = scale;
    tensors.clear();
    runtime_->attention(stream_.get(), attention, tensors.q(), tensors.k(), tensors.v(), tensors.o());
    EXPECT_LT(tensors.error(double{scale}), kTolerance) << scale;
  }
}

TEST_F(TypedAttentionGpuTest, NullPointersAreRefusedUnlessTheirTensorIsEmpty) {
  Attention attention = packed_attention();
  PackedTensors tensors(attention, 0);
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "no error";
  };
  const auto attend = runtime_->prepare(attention);
  EXPECT_THAT(message([&] { attend(stream_.get(), tensors.q(), nullptr, tensors.v(), tensors.o()); }),
              HasSubstr("pointer to k is null"));
  attention.lse = true;
  const auto with_lse = runtime_->prepare(attention);
  EXPECT_THAT(message([&] { with_lse(stream_.get(), tensors.q(), tensors.k(), tensors.v(), tensors.o()); }),
              HasSubstr("pointer to lse is null"));
  for (Attention empty :
       {Attention{.batch = 0, .heads = 4, .s_q = 9, .d = 64}, Attention{.heads = 0, .s_q = 9, .d = 64},
        Attention{.heads = 4, .s_q = 0, .s_k = 9, .d = 64}}) {
    EXPECT_NO_THROW(runtime_->prepare(empty)(stream_.get(), nullptr, nullptr, nullptr, nullptr));
  }
  // Without keys there are still queries to answer, with zeros.
  attention = {.heads = 4, .s_q = 9, .s_k = 0, .d = 64};
  tensors.clear();
  runtime_->prepare(attention)(stream_.get(), tensors.q(), nullptr, nullptr, tensors.o());
  cuda::check(cuda::driver().cuStreamSynchronize(stream_.get()), "cuStreamSynchronize");
  std::vector<std::uint16_t> o(4 * 9 * 64);
  cuda::check(cuda::driver().cuMemcpyDtoH(o.data(), reinterpret_cast<CUdeviceptr>(tensors.o()), o.size() * 2),
              "cuMemcpyDtoH");
  EXPECT_THAT(o, Each(0));
}

// Causal self-attention of sequences of their own lengths, from one tensor [tokens, heads + 2 · kv_heads, d].
class RaggedTensors {
 public:
  static constexpr int kHeads = 4;
  static constexpr int kKvHeads = 2;
  static constexpr std::size_t kD = 64;
  static constexpr std::size_t kToken = (kHeads + 2 * kKvHeads) * kD;

  RaggedTensors() {
    std::vector<std::uint16_t> bits;
    for (const float value : values_) bits.push_back(to_bf16(value));
    input_ = cuda::DeviceBuffer(bits.size() * 2);
    cuda::check(cuda::driver().cuMemcpyHtoD(input_.get(), bits.data(), input_.size()), "cuMemcpyHtoD");
    output_ = cuda::DeviceBuffer(rows() * kD * 2);
    lse_ = cuda::DeviceBuffer(rows() * sizeof(float));
    clear();
  }

  static Attention attention() {
    Attention attention{.batch = 4,
                        .heads = kHeads,
                        .kv_heads = kKvHeads,
                        .s_q = 100,
                        .d = kD,
                        .mask = Mask::causal,
                        .lse = true,
                        .lengths = Lengths::cumulative,
                        .total_q = 108};
    attention.q_strides = attention.k_strides = attention.v_strides = {.token = kToken, .head = kD};
    return attention;
  }
  AttentionCall call() const {
    auto* const q = reinterpret_cast<std::uint16_t*>(input_.get());
    const auto* const cu = reinterpret_cast<const std::int32_t*>(offsets_.get());
    return {.q = q,
            .k = q + kHeads * kD,
            .v = q + (kHeads + kKvHeads) * kD,
            .o = reinterpret_cast<void*>(output_.get()),
            .lse = reinterpret_cast<float*>(lse_.get()),
            .cu_q = cu,
            .cu_k = cu};
  }
  void clear() {
    cuda::check(cuda::driver().cuMemsetD8(output_.get(), 0xff, output_.size()), "cuMemsetD8");
    cuda::check(cuda::driver().cuMemsetD8(lse_.get(), 0xff, lse_.size()), "cuMemsetD8");
  }

  // The relative Frobenius error of O, where log-sum-exps are right too.
  double error(double scale) const {
    cuda::check(cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
    std::vector<std::uint16_t> o(rows() * kD);
    std::vector<float> lse(rows());
    cuda::check(cuda::driver().cuMemcpyDtoH(o.data(), output_.get(), output_.size()), "cuMemcpyDtoH");
    cuda::check(cuda::driver().cuMemcpyDtoH(lse.data(), lse_.get(), lse_.size()), "cuMemcpyDtoH");
    double difference = 0;
    double magnitude = 0;
    for (std::size_t head = 0; head < kHeads; ++head) {
      const std::size_t kv_head = head / (kHeads / kKvHeads);
      const Head q{values_, head * kD, kToken, kD};
      const Head k{values_, (kHeads + kv_head) * kD, kToken, kD};
      const Head v{values_, (kHeads + kKvHeads + kv_head) * kD, kToken, kD};
      for (std::size_t b = 0; b + 1 < cu_.size(); ++b) {
        for (std::int32_t token = cu_[b]; token < cu_[b + 1]; ++token) {
          const HostRow want = attend_on_host(q, k, v, token, cu_[b], token + 1, scale);
          const auto row = static_cast<std::size_t>(token);
          EXPECT_NEAR(lse[head * kTokens + row], want.lse, 1e-2) << "head " << head << " token " << token;
          for (std::size_t i = 0; i < kD; ++i) {
            const double got = from_bf16(o[(row * kHeads + head) * kD + i]);
            difference += (got - want.o[i]) * (got - want.o[i]);
            magnitude += want.o[i] * want.o[i];
          }
        }
      }
    }
    return std::sqrt(difference / magnitude);
  }

 private:
  static constexpr std::size_t kTokens = 108;
  static std::size_t rows() { return kTokens * kHeads; }

  std::vector<std::int32_t> cu_ = offsets_of({30, 0, 77, 1}, 0);
  Values values_ = random_values(kTokens * kToken, 12);
  cuda::DeviceBuffer offsets_ = upload_offsets(cu_);
  cuda::DeviceBuffer input_, output_, lse_;
};

TEST_F(TypedAttentionGpuTest, SequencesOfTheirOwnLengthsAreRightPreparedOrNot) {
  RaggedTensors tensors;
  const auto attend = runtime_->prepare(RaggedTensors::attention());
  attend(stream_.get(), tensors.call());
  EXPECT_LT(tensors.error(0.125), kTolerance);
  tensors.clear();
  runtime_->attention(stream_.get(), RaggedTensors::attention(), tensors.call());
  EXPECT_LT(tensors.error(0.125), kTolerance);
  Attention promised_little = RaggedTensors::attention();
  promised_little.alignment = 2;
  tensors.clear();
  runtime_->prepare(promised_little)(stream_.get(), tensors.call());
  EXPECT_LT(tensors.error(0.125), kTolerance);
}

TEST_F(TypedAttentionGpuTest, OffsetsThatAreMissingAreRefused) {
  const RaggedTensors tensors;
  const auto attend = runtime_->prepare(RaggedTensors::attention());
  AttentionCall call = tensors.call();
  call.cu_k = nullptr;
  EXPECT_THAT(message_of(ErrorCode::invalid_argument, [&] { attend(stream_.get(), call); }),
              AllOf(HasSubstr("cu_k is null"), HasSubstr("batch + 1 = 5 offsets")));
  call = tensors.call();
  EXPECT_THAT(
      message_of(ErrorCode::invalid_argument, [&] { attend(stream_.get(), call.q, call.k, call.v, call.o, call.lse); }),
      HasSubstr("cu_q is null"));
  Attention nothing = RaggedTensors::attention();
  nothing.batch = 0;
  EXPECT_NO_THROW(runtime_->prepare(nothing)(stream_.get(), AttentionCall{}));
}

TEST_F(TypedAttentionGpuTest, NoWorkspaceIsNeededHoweverLongTheSequences) {
  for (const std::int64_t tokens : {1, 1000, 16384, 262144}) {
    const auto attend = runtime_->prepare(Attention{.heads = 8, .s_q = tokens, .d = 128, .mask = Mask::causal});
    EXPECT_EQ(attend.workspace_bytes(), 0U) << tokens;
  }
}

TEST_F(TypedAttentionGpuTest, APreparedCallCanBeCaptured) {
  const auto attend = runtime_->prepare(packed_attention());
  PackedTensors tensors(packed_attention(), 0);
  const auto& driver = cuda::driver();
  cuda::check(driver.cuStreamBeginCapture(stream_.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  attend(stream_.get(), tensors.q(), tensors.k(), tensors.v(), tensors.o());
  CUgraph graph = nullptr;
  cuda::check(driver.cuStreamEndCapture(stream_.get(), &graph), "cuStreamEndCapture");
  CUgraphExec exec = nullptr;
  cuda::check(driver.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  cuda::check(driver.cuGraphLaunch(exec, stream_.get()), "cuGraphLaunch");
  EXPECT_LT(tensors.error(0.125), kTolerance);
  driver.cuGraphExecDestroy(exec);
  driver.cuGraphDestroy(graph);
}

}  // namespace
}  // namespace kiln::tuner
