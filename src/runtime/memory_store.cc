#include "runtime/memory_store.h"

#include <algorithm>

namespace kiln {
namespace {

// The same for two trials of the same candidate on the same hardware by the same versions, and only for them.
std::string candidate_key(const Trial& trial) {
  std::string key;
  for (const std::string& part : {trial.hardware_class, trial.problem, trial.template_digest, to_text(trial.config),
                                  std::to_string(trial.versions.driver), trial.versions.nvrtc, trial.versions.kiln}) {
    key += part + '\n';
  }
  return key;
}

}  // namespace

bool supersedes(const Decision& candidate, const Decision& current) {
  if (candidate.evidence != current.evidence) return candidate.evidence > current.evidence;
  return candidate.unix_time >= current.unix_time;
}

bool supersedes(const Trial& candidate, const Trial& current) {
  if (candidate.evidence != current.evidence) return candidate.evidence > current.evidence;
  return !(candidate.failure && candidate.failure->kind == FailureKind::out_of_memory);
}

std::optional<StoredCubin> MemoryStore::find_cubin(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = cubins_.find(key);
  if (found == cubins_.end()) return std::nullopt;
  return found->second;
}

bool MemoryStore::put_cubin(const StoredCubin& cubin) {
  const std::lock_guard lock(mutex_);
  cubins_.insert_or_assign(cubin.key, cubin);
  return true;
}

std::optional<Decision> MemoryStore::find_decision(const std::string& hardware_class, const Problem& problem) {
  const std::lock_guard lock(mutex_);
  const auto found = decisions_.find({hardware_class, problem.canonical()});
  if (found == decisions_.end()) return std::nullopt;
  return found->second;
}

std::vector<Decision> MemoryStore::decisions(const std::string& op, const std::string& hardware_class) {
  const std::lock_guard lock(mutex_);
  std::vector<Decision> result;
  for (const auto& [key, decision] : decisions_) {
    if (decision.problem.op != op) continue;
    if (hardware_class.empty() || decision.hardware_class == hardware_class) result.push_back(decision);
  }
  return result;
}

bool MemoryStore::put_decision(const Decision& decision) {
  const std::lock_guard lock(mutex_);
  const std::pair key{decision.hardware_class, decision.problem.canonical()};
  const auto [found, added] = decisions_.try_emplace(key, decision);
  if (!added && supersedes(decision, found->second)) found->second = decision;
  if (decision.evidence == Evidence::measured) misses_.erase(key);
  return true;
}

bool MemoryStore::put_trial(const Trial& trial) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = known_.try_emplace(candidate_key(trial), trials_.size());
  if (is_new) {
    trials_.push_back(trial);
  } else if (Trial& current = trials_[place->second]; supersedes(trial, current)) {
    current = trial;
  }
  return true;
}

std::vector<Trial> MemoryStore::trials(const std::string& hardware_class, const Problem& problem) {
  const std::lock_guard lock(mutex_);
  const std::string canonical = problem.canonical();
  std::vector<Trial> result;
  std::copy_if(trials_.begin(), trials_.end(), std::back_inserter(result), [&](const Trial& trial) {
    return trial.hardware_class == hardware_class && trial.problem == canonical;
  });
  return result;
}

std::vector<Trial> MemoryStore::trials_of_template(const std::string& hardware_class,
                                                   const std::string& template_name) {
  const std::lock_guard lock(mutex_);
  std::vector<Trial> result;
  std::copy_if(trials_.begin(), trials_.end(), std::back_inserter(result), [&](const Trial& trial) {
    return trial.hardware_class == hardware_class && trial.template_name == template_name;
  });
  return result;
}

bool MemoryStore::record_miss(const Miss& miss) {
  const std::lock_guard lock(mutex_);
  Miss& kept = misses_.try_emplace({miss.hardware_class, miss.problem.canonical()}, Miss{}).first->second;
  const std::int64_t seen = kept.count + std::max<std::int64_t>(1, miss.count);
  const std::int64_t last = std::max(kept.unix_time, miss.unix_time);
  kept = miss;
  kept.count = seen;
  kept.unix_time = last;
  return true;
}

std::vector<Miss> MemoryStore::misses() {
  const std::lock_guard lock(mutex_);
  std::vector<Miss> result;
  for (const auto& [key, miss] : misses_) result.push_back(miss);
  std::stable_sort(result.begin(), result.end(), [](const Miss& a, const Miss& b) { return a.count > b.count; });
  return result;
}

std::optional<std::string> MemoryStore::find_fact(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto it = facts_.find(name);
  if (it == facts_.end()) return std::nullopt;
  return it->second;
}

bool MemoryStore::put_fact(const std::string& name, const std::string& value) {
  const std::lock_guard lock(mutex_);
  facts_[name] = value;
  return true;
}

}  // namespace kiln
