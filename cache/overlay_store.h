// A Store in front of another: what the other cannot keep (a read-only file, a full disk, a lock held too long) is kept
// in memory as long as the process lives, and answers are taken from both. Thread-safe.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/memory_store.h"
#include "runtime/store.h"

namespace kiln::cache {

class OverlayStore : public Store {
 public:
  explicit OverlayStore(std::unique_ptr<Store> below) : below_(std::move(below)) {}

  std::string location() const override { return below_->location(); }
  bool writable() const override { return below_->writable(); }
  std::optional<StoredCubin> find_cubin(const std::string& key) override;
  std::optional<Decision> find_decision(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Decision> decisions(const std::string& op, const std::string& hardware_class) override;
  std::vector<Trial> trials(const std::string& hardware_class, const Problem& problem) override;
  std::vector<Trial> trials_of_template(const std::string& hardware_class, const std::string& template_name) override;
  std::vector<Miss> misses() override;
  std::optional<std::string> find_fact(const std::string& name) override;

  // True when the store below has the row; false when only memory does.
  bool put_cubin(const StoredCubin& cubin) override;
  bool put_decision(const Decision& decision) override;
  bool put_trial(const Trial& trial) override;
  bool record_miss(const Miss& miss) override;
  bool put_fact(const std::string& name, const std::string& value) override;

 private:
  // Beyond this, cubins that cannot be stored are compiled again when they are asked for again.
  static constexpr std::int64_t kMaxCubinBytes = std::int64_t{256} << 20;

  const std::unique_ptr<Store> below_;
  MemoryStore memory_;
  std::atomic<bool> used_{false};  // whether memory_ holds anything: most processes never need it
  std::atomic<std::int64_t> cubin_bytes_{0};
};

}  // namespace kiln::cache
