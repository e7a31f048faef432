#include "kiln/runtime.h"

#include <shared_mutex>
#include <unordered_map>

#include "jit/nvrtc.h"
#include "kiln/error.h"
#include "runtime/gemm_canonical.h"
#include "runtime/operation_impl.h"

namespace kiln {
namespace {

struct GemmHash {
  std::size_t operator()(const Gemm& g) const noexcept {
    std::size_t hash = 1469598103934665603ULL;
    const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
    for (const std::int64_t v :
         {g.m.value, g.n, g.k, g.lda, g.ldb, g.ldd, g.ldc, g.batch, g.stride_a, g.stride_b, g.stride_d, g.stride_c}) {
      mix(static_cast<std::uint64_t>(v));
    }
    mix(static_cast<std::uint64_t>(g.a) | static_cast<std::uint64_t>(g.b) << 8 | static_cast<std::uint64_t>(g.d) << 16);
    mix(static_cast<std::uint64_t>(g.a_layout) | static_cast<std::uint64_t>(g.b_layout) << 1 |
        static_cast<std::uint64_t>(g.d_layout) << 2 | static_cast<std::uint64_t>(g.m.is_bound) << 3 |
        static_cast<std::uint64_t>(g.alignment) << 4);
    mix(static_cast<std::uint64_t>(g.addend) | static_cast<std::uint64_t>(g.bias) << 2 |
        static_cast<std::uint64_t>(g.activation) << 4 | static_cast<std::uint64_t>(g.c.value_or(g.d)) << 8);
    return hash;
  }
};

}  // namespace

struct Kernel::Impl {
  TemplatePtr kernel_template;
};

const std::string& Kernel::name() const { return impl_->kernel_template->manifest.name; }
const std::string& Kernel::op() const { return impl_->kernel_template->manifest.op; }

struct Runtime::Impl {
  std::shared_ptr<RuntimeCore> core;
  std::shared_mutex remembered_mutex;
  std::unordered_map<Gemm, GemmOperation, GemmHash> remembered;

  std::shared_ptr<Operation::Impl> start(const Problem& problem, const std::string& only_template) const {
    auto operation = std::make_shared<Operation::Impl>();
    operation->core = core;
    operation->op = core->templates.find_op(problem.op);
    operation->only_template = only_template;
    operation->problem = complete(*operation->op, problem);
    return operation;
  }
  std::shared_ptr<Operation::Impl> fixed(const Problem& problem, const std::string& only_template) const {
    auto operation = start(problem, only_template);
    operation->fixed = prepare_problem(*core, operation->problem, only_template);
    return operation;
  }
  std::shared_ptr<Operation::Impl> over_range(const Problem& problem, const std::string& dim) const {
    auto operation = start(problem, "");
    const auto bound = problem.dims.find(dim);
    if (bound == problem.dims.end()) {
      throw Error(ErrorCode::invalid_argument, "the problem gives no bound for its dynamic dim '" + dim + "'");
    }
    operation->table = std::make_unique<PlanTable>(core, operation->op, problem, dim, bound->second, "");
    return operation;
  }
};

Runtime::Runtime(const RuntimeOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->core = std::make_shared<RuntimeCore>(options, 0, true);
}

Runtime::Runtime(int device_ordinal, const RuntimeOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->core = std::make_shared<RuntimeCore>(options, device_ordinal, false);
}

Runtime::~Runtime() = default;

GemmOperation Runtime::prepare(const Gemm& gemm) {
  const CanonicalGemm form = canonical(gemm);
  return GemmOperation(form.dynamic_dim.empty() ? prepare(form.problem) : prepare(form.problem, form.dynamic_dim),
                       form.swapped, gemm.addend != Addend::d);
}

Operation Runtime::prepare(const Problem& problem) { return Operation(impl_->fixed(problem, "")); }

Operation Runtime::prepare(const Problem& problem, const std::string& dynamic_dim) {
  return Operation(impl_->over_range(problem, dynamic_dim));
}

Operation Runtime::prepare(const Kernel& kernel, const Problem& problem) {
  Problem named = problem;
  named.op = kernel.op();
  return Operation(impl_->fixed(named, kernel.name()));
}

void Runtime::gemm(Stream stream, const Gemm& gemm, const void* a, const void* b, void* d, float alpha, float beta) {
  this->gemm(stream, gemm, GemmCall{.a = a, .b = b, .d = d, .alpha = alpha, .beta = beta});
}

void Runtime::gemm(Stream stream, const Gemm& gemm, const GemmCall& call) {
  {
    const std::shared_lock lock(impl_->remembered_mutex);
    if (const auto it = impl_->remembered.find(gemm); it != impl_->remembered.end()) {
      return it->second(stream, call);
    }
  }
  refuse_in_capture(stream, "preparing a GEMM met for the first time");
  // Prepared outside the lock: a compile must not hold up calls for other problems.
  GemmOperation operation = prepare(gemm);
  {
    const std::unique_lock lock(impl_->remembered_mutex);
    impl_->remembered.emplace(gemm, operation);
  }
  operation(stream, call);
}

Kernel Runtime::load(const std::filesystem::path& manifest) {
  return Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{impl_->core->templates.load(manifest)}));
}

std::string Runtime::hardware_class() const { return impl_->core->hardware_class; }
std::string Runtime::cache_location() const { return impl_->core->store->location(); }
bool Runtime::nvrtc_loaded() noexcept { return jit::Nvrtc::loaded(); }

}  // namespace kiln
