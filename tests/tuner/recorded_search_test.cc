// The default search and the cost models on what an H200 really measured (bench/results/h200/search_study_trials.txt):
// a change of either that would lose time there fails here.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cache/gpu_profiles.h"
#include "runtime/memory_store.h"
#include "tuner/replay.h"

namespace kiln::tuner {
namespace {

// The file's trials of templates as they are now. A block begins "problem P template T parameters A,B,…"; a line of it
// is their values and the microseconds.
void load_trials(const TemplateSet& templates, const cuda::DeviceInfo& gpu, MemoryStore& store) {
  std::ifstream file(KILN_STUDY_TRIALS);
  ASSERT_TRUE(file) << KILN_STUDY_TRIALS;
  Trial trial;
  trial.hardware_class = cuda::hardware_class(gpu);
  trial.evidence = Evidence::measured;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "problem") {
      std::string fields, template_name, parameters;
      words >> fields >> word >> template_name >> word >> parameters;
      const TemplatePtr t = templates.find(template_name);
      trial.problem = problem_from_text(*t->op, parse_problem_text(t->op->name, fields)).canonical();
      trial.template_name = template_name;
      trial.template_digest = t->digest.hex();
      names = split(parameters, ',');
      continue;
    }
    const std::vector<std::string> values = split(word, ',');
    ASSERT_EQ(values.size(), names.size()) << line;
    trial.config.clear();
    for (std::size_t i = 0; i < names.size(); ++i) trial.config[names[i]] = std::stoll(values[i]);
    double us = 0;
    ASSERT_TRUE(words >> us) << line;
    trial.timing = Timing{.median_us = us, .min_us = us, .max_us = us, .spread = 0, .batches = 2};
    store.put_trial(trial);
  }
}

TEST(RecordedSearchTest, TheDefaultSearchComesNearTheBestThatAnH200Measured) {
  const TemplateSet templates;
  const cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  MemoryStore store;
  load_trials(templates, gpu, store);
  const std::vector<Replay> replays = replay_searches(templates, store, "gemm", gpu, {});
  ASSERT_EQ(replays.size(), 8U);
  double found = 0;
  double model = 0;
  for (const Replay& each : replays) {
    EXPECT_GE(each.found_of_best(), 0.96)
        << each.problem.canonical() << "\nbest:  " << each.best << "\nfound: " << each.found;
    EXPECT_LE(each.tried, 24U);
    found += each.found_of_best() / 8;
    model += each.model_of_best() / 8;
  }
  EXPECT_GE(found, 0.99);
  EXPECT_GE(model, 0.93);
}

}  // namespace
}  // namespace kiln::tuner
