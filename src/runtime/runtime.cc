#include "kiln/runtime.h"

#include <cmath>
#include <initializer_list>

#include "jit/nvrtc.h"
#include "kiln/error.h"
#include "runtime/gemm_canonical.h"
#include "runtime/operation_impl.h"
#include "runtime/remembered.h"

namespace kiln {
namespace {

std::size_t hash_of(std::initializer_list<std::int64_t> values) noexcept {
  std::size_t hash = 1469598103934665603ULL;
  for (const std::int64_t value : values) hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211ULL;
  return hash;
}

// Small values side by side in one.
std::int64_t packed(std::initializer_list<int> values) noexcept {
  std::uint64_t result = 0;
  for (const int value : values) result = result << 9 ^ static_cast<std::uint64_t>(value);
  return static_cast<std::int64_t>(result);
}

struct GemmHash {
  std::size_t operator()(const Gemm& g) const noexcept {
    return hash_of(
        {g.m.value, g.n, g.k, g.lda, g.ldb, g.ldd, g.ldc, g.batch, g.stride_a, g.stride_b, g.stride_d, g.stride_c,
         packed({static_cast<int>(g.a), static_cast<int>(g.b), static_cast<int>(g.d), static_cast<int>(g.a_layout),
                 static_cast<int>(g.b_layout), static_cast<int>(g.d_layout), static_cast<int>(g.m.is_bound)}),
         packed({static_cast<int>(g.addend), static_cast<int>(g.bias), static_cast<int>(g.activation),
                 static_cast<int>(g.c.value_or(g.d))}),
         g.alignment});
  }
};

// What a kernel is prepared for: the scale and the value of the cap are arguments of the launch. A cap that is none
// stays, to be refused when preparing.
Attention without_scalars(Attention attention) {
  attention.scale.reset();
  if (attention.softcap > 0 && std::isfinite(attention.softcap)) attention.softcap = 1.0F;
  return attention;
}

struct AttentionHash {
  std::size_t operator()(const Attention& a) const noexcept {
    const auto strides = [](const Strides& s) {
      return static_cast<std::int64_t>(hash_of({s.token.value_or(-1), s.head.value_or(-1), s.batch.value_or(-1)}));
    };
    return hash_of({a.batch, a.heads, a.kv_heads.value_or(-1), a.s_q, a.s_k.value_or(-1), a.d, a.d_v.value_or(-1),
                    packed({static_cast<int>(a.dtype), a.o ? static_cast<int>(*a.o) : -1, static_cast<int>(a.mask),
                            static_cast<int>(a.softcap > 0), static_cast<int>(a.lse)}),
                    static_cast<int>(a.lengths), a.total_q, a.total_k.value_or(-1), a.window, a.alignment,
                    strides(a.q_strides), strides(a.k_strides), strides(a.v_strides), strides(a.o_strides)});
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
  Remembered<Gemm, GemmOperation, GemmHash> gemms;
  Remembered<Attention, Operation, AttentionHash> attentions;

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

AttentionOperation Runtime::prepare(const Attention& attention) {
  return AttentionOperation(prepare(to_problem(attention)), attention);
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
  const GemmOperation& operation = impl_->gemms.get(gemm, [&] {
    refuse_in_capture(stream, "preparing a GEMM met for the first time");
    return prepare(gemm);
  });
  operation(stream, call);
}

void Runtime::attention(Stream stream, const Attention& attention, const void* q, const void* k, const void* v, void* o,
                        float* lse) {
  this->attention(stream, attention, AttentionCall{.q = q, .k = k, .v = v, .o = o, .lse = lse});
}

void Runtime::attention(Stream stream, const Attention& attention, const AttentionCall& call) {
  const Operation& operation = impl_->attentions.get(without_scalars(attention), [&] {
    refuse_in_capture(stream, "preparing an attention met for the first time");
    return prepare(to_problem(attention));
  });
  AttentionOperation(operation, attention)(stream, call);
}

Problem Runtime::problem(const std::string& op, std::string_view fields) const {
  return given_in_text(*impl_->core->templates.find_op(op), parse_problem_text(op, fields));
}

Kernel Runtime::load(const std::filesystem::path& manifest) {
  return Kernel(std::make_shared<const Kernel::Impl>(Kernel::Impl{impl_->core->templates.load(manifest)}));
}

std::string Runtime::hardware_class() const { return impl_->core->hardware_class; }
std::string Runtime::cache_location() const { return impl_->core->store->location(); }
bool Runtime::nvrtc_loaded() noexcept { return jit::Nvrtc::loaded(); }

}  // namespace kiln
