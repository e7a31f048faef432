// The inside of an Operation: a fixed plan, or a table of plans over a dynamic dim.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "kiln/operation.h"
#include "runtime/plan_table.h"
#include "runtime/prepared.h"

namespace kiln {

struct Operation::Impl {
  std::shared_ptr<RuntimeCore> core;
  std::shared_ptr<const OpSpec> op;
  std::string only_template;
  Problem problem;                   // complete; the largest extent of a dynamic dim
  PreparedPtr fixed;                 // null when a dim is dynamic
  std::unique_ptr<PlanTable> table;  // null when no dim is
  mutable StreamWorkspaces workspaces;

  // Plans for pointers less aligned than promised, made when first met. By canonical problem.
  mutable std::mutex unaligned_mutex;
  mutable std::map<std::string, PreparedPtr> unaligned;

  void call(Stream stream, const Prepared& prepared, std::span<void* const> pointers, std::span<const double> scalars,
            void* workspace) const;

 private:
  void launch(Stream stream, const Prepared& prepared, std::span<void* const> pointers, std::span<const double> scalars,
              void* workspace) const;
  PreparedPtr prepare_unaligned(Stream stream, Problem problem, std::span<void* const> pointers) const;
};

}  // namespace kiln
