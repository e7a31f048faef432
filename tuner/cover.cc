#include "tuner/cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace kiln::tuner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What a kernel can do with whichever of its configurations is best at each sample.
using Kernels = std::map<std::string, std::vector<double>>;

Kernels best_by_kernel(const std::vector<Server>& servers) {
  Kernels kernels;
  for (const Server& server : servers) {
    std::vector<double>& times = kernels[server.kernel];
    times.resize(server.times.size(), kNever);
    for (std::size_t s = 0; s < times.size(); ++s) times[s] = std::min(times[s], server.times[s]);
  }
  return kernels;
}

std::vector<double> best_times(const Kernels& kernels) {
  std::vector<double> best;
  for (const auto& [name, times] : kernels) {
    best.resize(times.size(), kNever);
    for (std::size_t s = 0; s < times.size(); ++s) best[s] = std::min(best[s], times[s]);
  }
  return best;
}

class KernelChoice {
 public:
  KernelChoice(const Kernels& kernels, double slack) : kernels_(kernels), best_(best_times(kernels)), slack_(slack) {}

  std::set<std::string> choose() {
    std::vector<bool> open;
    for (const double us : best_) open.push_back(std::isfinite(us));
    while (std::find(open.begin(), open.end(), true) != open.end()) {
      const std::string& next = most_useful(open);
      chosen_.insert(next);
      for (std::size_t s = 0; s < open.size(); ++s) open[s] = open[s] && !serves(next, s);
    }
    give_up_spare_ones();
    return chosen_;
  }

 private:
  bool serves(const std::string& kernel, std::size_t sample) const {
    return kernels_.at(kernel)[sample] <= best_[sample] * (1 + slack_);
  }

  const std::string& most_useful(const std::vector<bool>& open) const {
    const std::string* most = nullptr;
    int most_served = 0;
    double least_loss = 0;
    for (const auto& [name, times] : kernels_) {
      int served = 0;
      double loss = 0;
      for (std::size_t s = 0; s < open.size(); ++s) {
        if (!open[s] || !serves(name, s)) continue;
        ++served;
        loss += std::log(times[s] / best_[s]);
      }
      if (most == nullptr || served > most_served || (served == most_served && loss < least_loss)) {
        most = &name;
        most_served = served;
        least_loss = loss;
      }
    }
    return *most;
  }

  void give_up_spare_ones() {
    for (auto kernel = chosen_.begin(); kernel != chosen_.end();) {
      bool is_needed = false;
      for (std::size_t s = 0; s < best_.size() && !is_needed; ++s) {
        is_needed = std::isfinite(best_[s]) && serves(*kernel, s) &&
                    std::none_of(chosen_.begin(), chosen_.end(),
                                 [&](const std::string& other) { return other != *kernel && serves(other, s); });
      }
      kernel = is_needed ? std::next(kernel) : chosen_.erase(kernel);
    }
  }

  const Kernels& kernels_;
  std::vector<double> best_;
  double slack_;
  std::set<std::string> chosen_;
};

}  // namespace

std::vector<std::size_t> cover(const std::vector<Server>& servers, double slack, double noise) {
  if (servers.empty()) return {};
  const Kernels kernels = best_by_kernel(servers);
  const std::vector<double> best = best_times(kernels);
  const std::set<std::string> chosen = KernelChoice(kernels, slack).choose();
  const std::size_t nobody = servers.size();
  std::vector<std::size_t> choice;
  for (std::size_t s = 0; s < servers.front().times.size(); ++s) {
    std::size_t fastest = nobody;
    for (std::size_t i = 0; i < servers.size(); ++i) {
      if (chosen.count(servers[i].kernel) == 0 || !std::isfinite(servers[i].times[s])) continue;
      if (fastest == nobody || servers[i].times[s] < servers[fastest].times[s]) fastest = i;
    }
    const std::size_t before = choice.empty() ? nobody : choice.back();
    const bool stays = before != nobody && fastest != nobody &&
                       servers[before].times[s] <= servers[fastest].times[s] * (1 + noise) &&
                       servers[before].times[s] <= best[s] * (1 + slack);
    choice.push_back(stays ? before : fastest);
  }
  return choice;
}

}  // namespace kiln::tuner
