#include "runtime/plan_table.h"

#include <algorithm>
#include <iterator>

#include "kernel/space.h"
#include "kiln/error.h"
#include "runtime/dispatch.h"

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
  const std::vector<Problem> known = core_->lookup->known(op_->name);
  for (const std::int64_t last : dispatch_points(*op_, given_, {dim_, spec->min.value_or(0), bound_}, known)) {
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

Problem PlanTable::problem_at(std::int64_t extent) const { return with_extent(*op_, given_, dim_, extent); }

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
  const auto fits = [&](const Interval& interval) {
    const KernelTemplate& t = *interval.answer.kernel_template;
    return rejection(t, problem, core_->device).empty() &&
           illegal_reason(t, problem, interval.answer.config, core_->device).empty();
  };
  const auto own =
      std::find_if(intervals_.begin(), intervals_.end(), [extent](const Interval& i) { return extent <= i.last; });
  // A configuration need not be legal all the way down to the interval below. Then another interval's is taken, those
  // of larger extents first: its kernels are loaded, where a new answer might have to be compiled.
  for (auto interval = own; interval != intervals_.end(); ++interval) {
    if (fits(*interval)) return prepare_answer(*core_, problem, interval->answer);
  }
  for (auto interval = std::make_reverse_iterator(own); interval != intervals_.rend(); ++interval) {
    if (fits(*interval)) return prepare_answer(*core_, problem, interval->answer);
  }
  return prepare_problem(*core_, problem, only_template_);
}

}  // namespace kiln
