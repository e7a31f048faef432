// A dispatch table over one dynamic dim: few configurations, each valid on an interval of the dim, and the launch plan
// of each value met so far. A plan is laid out at the first call with its value (tens of microseconds, no compile: the
// kernels of every interval are loaded when preparing) and found by one atomic load after that. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/prepared.h"

namespace kiln {

class PlanTable {
 public:
  // Throws Error{invalid_argument} when `dim` cannot be dynamic, and as Runtime::prepare does.
  PlanTable(std::shared_ptr<RuntimeCore> core, std::shared_ptr<const OpSpec> op, Problem given, std::string dim,
            std::int64_t bound, std::string only_template);

  // Throws Error{invalid_argument} when `extent` is outside 0 … bound.
  const Prepared& at(std::int64_t extent);
  std::int64_t bound() const noexcept { return bound_; }
  // The most that any plan laid out so far needs.
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Interval {
    std::int64_t last;  // up to and including
    Answer answer;
  };
  Problem problem_at(std::int64_t extent) const;
  const Prepared& keep(std::int64_t extent, PreparedPtr prepared);
  PreparedPtr lay_out(std::int64_t extent) const;

  std::shared_ptr<RuntimeCore> core_;
  std::shared_ptr<const OpSpec> op_;
  Problem given_;
  std::string dim_;
  std::int64_t bound_;
  std::string only_template_;
  std::vector<Interval> intervals_;
  std::atomic<std::size_t> workspace_bytes_{0};

  std::vector<std::atomic<const Prepared*>> plans_;  // by extent
  std::mutex mutex_;
  std::vector<PreparedPtr> owned_;
};

}  // namespace kiln
