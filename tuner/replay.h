// The default search played against the store: each proposal takes the time that stored trials give it. So a change of
// the search or of a cost model is judged without a GPU, on what an exhaustive search measured once. Pure but for
// reading the store; as thread-safe as that is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/template_set.h"
#include "tuner/model/measured.h"

namespace kiln::tuner {

struct ReplayOptions {
  std::size_t max_candidates = 24;  // of one search
  std::uint64_t seed = 1;
  TrialForms forms = TrialForms::current;
  // Winners of the problems before it, the nearest first, that a search starts from.
  std::size_t near_winners = 0;
  // Problems with fewer measured candidates are left out: nobody knows what else there was to find.
  std::size_t fewest_known = 200;
};

struct Replay {
  Problem problem;
  std::size_t known = 0;    // candidates with a stored time
  std::size_t tried = 0;    // by the search
  std::size_t unknown = 0;  // of those, without a stored time: the search is told that they failed
  double best_us = 0;       // of all that are known
  double found_us = 0;      // by the search; 0: nothing
  double model_us = 0;      // of the first by prediction that is known
  std::string best, found;  // as describe() writes them

  double found_of_best() const { return found_us > 0 ? best_us / found_us : 0; }
  double model_of_best() const { return model_us > 0 ? best_us / model_us : 0; }
};

// A replay for each problem of the op, in the order of their canonical texts. Throws Error{not_found} for an op that
// there is not.
std::vector<Replay> replay_searches(const TemplateSet& templates, Store& store, const std::string& op,
                                    const cuda::DeviceInfo& device, const ReplayOptions& options);

}  // namespace kiln::tuner
