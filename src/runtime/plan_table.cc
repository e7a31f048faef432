#include "runtime/plan_table.h"

#include <algorithm>
#include <set>

#include "kernel/space.h"
#include "kiln/error.h"

namespace kiln {
namespace {

// One pointer per value: 8 MiB at the most.
constexpr std::int64_t kMaxBound = 1 << 20;

}  // namespace

PlanTable::PlanTable(std::shared_ptr<RuntimeCore> core, std::shared_ptr<const OpSpec> op, Problem given,
                     std::string dim, std::int64_t bound, std::string only_template)
    : core_(std::move(core)),
      op_(std::move(op)),
      given_(std::move(given)),
      dim_(std::move(dim)),
      bound_(bound),
      only_template_(std::move(only_template)) {
  const auto spec =
      std::find_if(op_->dims.begin(), op_->dims.end(), [this](const DimSpec& d) { return d.name == dim_; });
  if (spec == op_->dims.end() || spec->is_stride) {
    throw Error(ErrorCode::invalid_argument, "dim '" + dim_ + "' of op " + op_->name + " cannot be dynamic: it " +
                                                 (spec == op_->dims.end() ? "does not exist" : "is a stride"));
  }
  if (bound_ < 1 || bound_ > kMaxBound) {
    throw Error(ErrorCode::invalid_argument, "the bound of dynamic dim " + dim_ + " is " + std::to_string(bound_) +
                                                 "; allowed are 1 to " + std::to_string(kMaxBound));
  }
  plans_ = std::vector<std::atomic<const Prepared*>>(static_cast<std::size_t>(bound_) + 1);
  for (const std::int64_t last : breakpoints(spec->min.value_or(0))) {
    PreparedPtr prepared = prepare_problem(*core_, problem_at(last), only_template_);
    const auto& baked = prepared->answer.kernel_template->manifest.bake;
    if (std::find(baked.begin(), baked.end(), dim_) != baked.end()) {
      throw Error(ErrorCode::invalid_argument, "dim " + dim_ + " cannot be dynamic: template " +
                                                   prepared->answer.kernel_template->manifest.name + " bakes it");
    }
    intervals_.push_back({last, prepared->answer});
    keep(last, std::move(prepared));
  }
}

// Where configurations may change: powers of two, and every extent this problem has been tuned for; none below the
// dim's minimum, which is no problem of the op.
std::vector<std::int64_t> PlanTable::breakpoints(std::int64_t smallest) const {
  std::set<std::int64_t> points{bound_};
  for (std::int64_t power = 1; power < bound_; power *= 2) {
    if (power >= smallest) points.insert(power);
  }
  const Problem largest = problem_at(bound_);
  for (const Decision& decision : core_->store->decisions(op_->name, core_->hardware_class)) {
    const auto it = decision.problem.dims.find(dim_);
    if (it == decision.problem.dims.end() || it->second < std::max<std::int64_t>(1, smallest) || it->second > bound_) {
      continue;
    }
    if (decision.problem == problem_at(it->second)) points.insert(it->second);
  }
  return {points.begin(), points.end()};
}

Problem PlanTable::problem_at(std::int64_t extent) const {
  Problem problem = given_;
  problem.dims[dim_] = extent;
  return complete(*op_, std::move(problem));
}

const Prepared& PlanTable::at(std::int64_t extent) {
  if (extent < 0 || extent > bound_) {
    throw Error(ErrorCode::invalid_argument, dim_ + " is " + std::to_string(extent) +
                                                 "; this operation was prepared for 0 to " + std::to_string(bound_));
  }
  std::atomic<const Prepared*>& slot = plans_[static_cast<std::size_t>(extent)];
  if (const Prepared* found = slot.load(std::memory_order_acquire)) return *found;
  const std::lock_guard lock(mutex_);
  if (const Prepared* found = slot.load(std::memory_order_acquire)) return *found;
  return keep(extent, lay_out(extent));
}

const Prepared& PlanTable::keep(std::int64_t extent, PreparedPtr prepared) {
  owned_.push_back(std::move(prepared));
  const Prepared& kept = *owned_.back();
  workspace_bytes_ = std::max<std::size_t>(workspace_bytes_, kept.plan.workspace_bytes);
  plans_[static_cast<std::size_t>(extent)].store(&kept, std::memory_order_release);
  return kept;
}

PreparedPtr PlanTable::lay_out(std::int64_t extent) const {
  const Problem problem = problem_at(extent);
  const auto interval =
      std::find_if(intervals_.begin(), intervals_.end(), [extent](const Interval& i) { return extent <= i.last; });
  const Answer& answer = interval->answer;
  const bool fits = rejection(*answer.kernel_template, problem, core_->device).empty() &&
                    illegal_reason(*answer.kernel_template, problem, answer.config, core_->device).empty();
  return fits ? prepare_answer(*core_, problem, answer) : prepare_problem(*core_, problem, only_template_);
}

}  // namespace kiln
