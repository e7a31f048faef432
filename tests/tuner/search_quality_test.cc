// How near a search comes to the best when the cost model is wrong: the truth is made up from the model with its
// constants changed, effects of values and of pairs of values that the model does not know, and noise.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "cache/gpu_profiles.h"
#include "kernel/config_scope.h"
#include "kernel/template_set.h"
#include "tuner/search/strategy.h"

namespace kiln::tuner {
namespace {

// The times of every point of a space in a world where the model errs. The same seed gives the same world for every
// problem, as one GPU would.
std::vector<double> warped_times(const SearchSpace& space, const Problem& problem, const cuda::DeviceInfo& gpu,
                                 std::uint64_t seed) {
  constexpr double kConstants = 0.2;
  constexpr double kValues = 0.03;
  constexpr double kPairs = 0.01;
  constexpr double kNoise = 0.005;
  std::vector<double> times(space.points().size());
  for (std::size_t t = 0; t < space.templates().size(); ++t) {
    KernelTemplate warped = *space.templates()[t];
    std::mt19937_64 random(seed * 1000 + t);
    std::normal_distribution<double> normal;
    for (CostConstant& constant : warped.manifest.cost_constants) {
      constant.value = std::max<std::int64_t>(
          1, std::llround(static_cast<double>(constant.value) * std::exp(kConstants * normal(random))));
    }
    std::map<std::string, double> effects;
    const auto effect = [&](const std::string& key, double size) {
      const auto [entry, is_new] = effects.try_emplace(key);
      if (is_new) {
        std::mt19937_64 own(std::hash<std::string>()(key) ^ seed);
        entry->second = size * std::normal_distribution<double>()(own);
      }
      return entry->second;
    };
    ConfigScope bound(warped, problem, gpu);
    std::optional<Evaluator> cycles;
    if (warped.manifest.cost_cycles) cycles.emplace(*warped.manifest.cost_cycles, bound.scope());
    for (std::size_t point = 0; point < times.size(); ++point) {
      const Point& each = space.points()[point];
      if (each.kernel_template != t) continue;
      bound.set(each.config);
      double shift = kNoise * normal(random);
      for (auto a = each.config.begin(); a != each.config.end(); ++a) {
        const std::string first = std::to_string(t) + a->first + std::to_string(a->second);
        shift += effect(first, kValues);
        for (auto b = std::next(a); b != each.config.end(); ++b) {
          shift += effect(first + b->first + std::to_string(b->second), kPairs);
        }
      }
      times[point] = (cycles ? static_cast<double>((*cycles)()) / gpu.clock_mhz : 30) * std::exp(shift);
    }
  }
  return times;
}

TEST(SearchQualityTest, TheDefaultSearchComesNearTheBestThoughTheModelErrs) {
  const TemplateSet templates;
  const cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  constexpr std::size_t kCandidates = 24;
  constexpr int kWorlds = 2;
  double sum = 0;
  double worst = 0;
  double model_sum = 0;
  int count = 0;
  for (const char* fields :
       {"m=512,n=512,k=512,dtype=bf16", "m=16,n=8192,k=8192,dtype=bf16", "m=64,n=2112,k=7168,dtype=bf16",
        "m=4096,n=4096,k=4096,dtype=bf16", "m=4096,n=2112,k=7168,dtype=bf16", "m=256,n=4096,k=16384,dtype=bf16"}) {
    const Problem problem = problem_from_text(*templates.find_op("gemm"), parse_problem_text("gemm", fields));
    std::vector<TemplatePtr> accepting;
    for (const TemplatePtr& t : templates.of_op("gemm")) {
      if (rejection(*t, problem, gpu).empty()) accepting.push_back(t);
    }
    const SearchSpace space(accepting, problem, gpu);
    for (int world = 0; world < kWorlds; ++world) {
      const std::vector<double> times = warped_times(space, problem, gpu, static_cast<std::uint64_t>(world));
      const double best = *std::min_element(times.begin(), times.end());
      const auto strategy = make_strategy(space, {.max_candidates = kCandidates, .seeds = {}});
      History history;
      while (history.size() < kCandidates) {
        const std::vector<std::size_t> batch = strategy->propose(history, kCandidates - history.size());
        if (batch.empty()) break;
        for (const std::size_t point : batch) history.record(point, times[point]);
      }
      ASSERT_LE(history.size(), kCandidates);
      const double loss = history.time(history.best(1).front()) / best - 1;
      const double model_loss = times[space.by_prediction().front()] / best - 1;
      sum += loss;
      worst = std::max(worst, loss);
      model_sum += model_loss;
      ++count;
    }
  }
  EXPECT_LT(sum / count, 0.04);
  EXPECT_LT(worst, 0.25);
  EXPECT_LT(sum, model_sum / 5) << "measuring must gain on the model alone";
}

}  // namespace
}  // namespace kiln::tuner
