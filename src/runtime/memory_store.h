// A Store that lives as long as the process. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/store.h"

namespace kiln {

class MemoryStore : public Store {
 public:
  std::string location() const override { return "memory"; }
  bool writable() const override { return true; }
  std::optional<StoredCubin> find_cubin(const std::string& key) override;
  bool put_cubin(const StoredCubin& cubin) override;
  std::optional<Decision> find_decision(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Decision> decisions(const std::string& op, const std::string& hardware_class) override;
  bool put_decision(const Decision& decision) override;
  bool put_trial(const Trial& trial) override;
  std::vector<Trial> trials(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Trial> trials_of_template(const std::string& hardware_class, const std::string& template_name) override;
  bool record_miss(const Miss& miss) override;
  std::vector<Miss> misses() override;
  std::optional<std::string> find_fact(const std::string& name) override;
  bool put_fact(const std::string& name, const std::string& value) override;

 private:
  std::mutex mutex_;
  std::map<std::string, StoredCubin> cubins_;
  std::map<std::pair<std::string, std::string>, Decision> decisions_;  // class, canonical problem
  std::vector<Trial> trials_;                           // in the order in which their candidates first came
  std::unordered_map<std::string, std::size_t> known_;  // where the trial of a candidate by some versions stands there
  std::map<std::pair<std::string, std::string>, Miss> misses_;
  std::map<std::string, std::string> facts_;
};

// Whether `candidate` should replace `current`: better evidence, else newer.
bool supersedes(const Decision& candidate, const Decision& current);
// Whether `candidate` should replace `current`, a trial of the same candidate by the same versions: unless the evidence
// is worse, or memory merely ran out this time.
bool supersedes(const Trial& candidate, const Trial& current);

}  // namespace kiln
