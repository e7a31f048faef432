#include "cache/overlay_store.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace kiln::cache {
namespace {

auto key_of(const Decision& decision) { return std::pair(decision.hardware_class, decision.problem.canonical()); }

auto key_of(const Trial& trial) {
  return std::tuple(trial.hardware_class, trial.problem, trial.template_digest, to_text(trial.config),
                    trial.versions.driver, trial.versions.nvrtc, trial.versions.kiln);
}

// Adds `newer` to `rows`; of two rows with one key the better stays.
template <class Row>
std::vector<Row> merged(std::vector<Row> rows, std::vector<Row> newer) {
  if (newer.empty()) return rows;
  std::map<decltype(key_of(rows[0])), std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) places.emplace(key_of(rows[i]), i);
  for (Row& row : newer) {
    const auto [found, added] = places.emplace(key_of(row), rows.size());
    if (added) {
      rows.push_back(std::move(row));
    } else if (supersedes(row, rows[found->second])) {
      rows[found->second] = std::move(row);
    }
  }
  return rows;
}

}  // namespace

std::optional<StoredCubin> OverlayStore::find_cubin(const std::string& key) {
  if (used_) {
    if (std::optional<StoredCubin> found = memory_.find_cubin(key)) return found;
  }
  return below_->find_cubin(key);
}

std::optional<Decision> OverlayStore::find_decision(const std::string& hardware_class, const Problem& problem) {
  std::optional<Decision> found = below_->find_decision(hardware_class, problem);
  if (!used_) return found;
  std::optional<Decision> ours = memory_.find_decision(hardware_class, problem);
  if (ours && (!found || supersedes(*ours, *found))) return ours;
  return found;
}

std::vector<Decision> OverlayStore::decisions(const std::string& op, const std::string& hardware_class) {
  std::vector<Decision> found = below_->decisions(op, hardware_class);
  if (!used_) return found;
  return merged(std::move(found), memory_.decisions(op, hardware_class));
}

std::vector<Trial> OverlayStore::trials(const std::string& hardware_class, const Problem& problem) {
  std::vector<Trial> found = below_->trials(hardware_class, problem);
  if (!used_) return found;
  return merged(std::move(found), memory_.trials(hardware_class, problem));
}

std::vector<Trial> OverlayStore::trials_of_template(const std::string& hardware_class,
                                                    const std::string& template_name) {
  std::vector<Trial> found = below_->trials_of_template(hardware_class, template_name);
  if (!used_) return found;
  return merged(std::move(found), memory_.trials_of_template(hardware_class, template_name));
}

std::vector<Miss> OverlayStore::misses() {
  std::vector<Miss> found = below_->misses();
  if (!used_) return found;
  for (Miss& ours : memory_.misses()) {
    const auto same = std::find_if(found.begin(), found.end(), [&](const Miss& miss) {
      return miss.hardware_class == ours.hardware_class && miss.problem == ours.problem;
    });
    if (same == found.end()) {
      found.push_back(std::move(ours));
    } else {
      same->count += ours.count;
      same->unix_time = std::max(same->unix_time, ours.unix_time);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Miss& a, const Miss& b) { return a.count > b.count; });
  return found;
}

bool OverlayStore::put_cubin(const StoredCubin& cubin) {
  if (below_->put_cubin(cubin)) return true;
  const auto bytes = static_cast<std::int64_t>(cubin.cubin.size());
  if (cubin_bytes_.fetch_add(bytes) + bytes > kMaxCubinBytes) {
    cubin_bytes_ -= bytes;
    return false;
  }
  memory_.put_cubin(cubin);
  used_ = true;
  return false;
}

bool OverlayStore::put_decision(const Decision& decision) {
  if (below_->put_decision(decision)) return true;
  memory_.put_decision(decision);
  used_ = true;
  return false;
}

bool OverlayStore::put_trial(const Trial& trial) {
  if (below_->put_trial(trial)) return true;
  memory_.put_trial(trial);
  used_ = true;
  return false;
}

bool OverlayStore::record_miss(const Miss& miss) {
  if (below_->record_miss(miss)) return true;
  memory_.record_miss(miss);
  used_ = true;
  return false;
}

std::optional<std::string> OverlayStore::find_fact(const std::string& name) {
  if (used_) {
    if (auto ours = memory_.find_fact(name)) return ours;
  }
  return below_->find_fact(name);
}

bool OverlayStore::put_fact(const std::string& name, const std::string& value) {
  if (below_->put_fact(name, value)) return true;
  memory_.put_fact(name, value);
  used_ = true;
  return false;
}

}  // namespace kiln::cache
