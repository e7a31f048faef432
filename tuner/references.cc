#include "tuner/references.h"

#include "kernel/kernel_key.h"
#include "kiln/error.h"
#include "tuner/measure/check_kernels.h"
#include "tuner/measure/layout.h"

namespace kiln::tuner {

using Built = std::variant<BuiltKernel, Failure>;

References::References(const TemplateSet& templates, KernelBuilder& builder, const cuda::DeviceInfo& device,
                       const OpSpec& op, const Problem& problem)
    : templates_(templates),
      builder_(builder),
      device_(device),
      op_(op),
      problem_(problem),
      reference_problem_(kiln::tuner::reference_problem(op, problem)) {}

std::optional<std::variant<std::size_t, Failure>> References::prepare(const KernelTemplate& t,
                                                                      const std::function<bool()>& stop) {
  bool stopped = false;
  if (const std::optional<Failure> failure = build_check_kernels(stop, &stopped)) return *failure;
  if (stopped) return std::nullopt;

  Reference reference;
  reference.own_launches = !t.manifest.check_launches.empty();
  std::string wanted = t.manifest.check_reference.empty() ? op_.check.reference : t.manifest.check_reference;
  if (reference.own_launches) wanted = t.manifest.name;
  const std::string key = (reference.own_launches ? "own " : "") + wanted;
  if (const auto found = index_.find(key); found != index_.end()) return found->second;

  try {
    const TemplatePtr source = templates_.find(wanted);
    reference.template_name = wanted;
    reference.template_digest = source->digest.hex();
    reference.config = source->manifest.fallback;
    std::optional<Built> built = build(*source, &reference, stop);
    if (!built) return std::nullopt;
    if (auto* failure = std::get_if<Failure>(&*built)) {
      failure->message = "the reference " + wanted + " does not compile: " + failure->message;
      return *failure;
    }
  } catch (const Error& error) {
    return Failure{.kind = FailureKind::rejected,
                   .message = "no reference to check " + t.manifest.name + " with: " + error.what(),
                   .log = {}};
  }
  references_.push_back(std::move(reference));
  return index_[key] = references_.size() - 1;
}

std::optional<Built> References::build(const KernelTemplate& t, Reference* reference,
                                       const std::function<bool()>& stop) {
  std::optional<Built> built =
      reference->own_launches
          ? builder_.get(check_compile_request(t, reference_problem_, device_), t.manifest.name + " check", stop)
          : builder_.get(t, reference_problem_, reference->config, stop);
  if (built && std::holds_alternative<BuiltKernel>(*built)) reference->code = std::get<BuiltKernel>(*built).code;
  return built;
}

std::optional<Failure> References::build_check_kernels(const std::function<bool()>& stop, bool* stopped) {
  if (!check_cubin_.empty()) return std::nullopt;
  const jit::CompileRequest request = check_kernels_request(op_, problem_, device_);
  std::optional<Built> built = builder_.get(request, "check kernels", stop);
  if (!built) {
    *stopped = true;
    return std::nullopt;
  }
  if (auto* failure = std::get_if<Failure>(&*built)) {
    failure->message = "the check kernels do not compile: " + failure->message;
    return *failure;
  }
  const KernelCode& code = std::get<BuiltKernel>(*built).code;
  for (std::size_t i = 0; i < request.name_expressions.size() && i < code.symbols.size(); ++i) {
    check_symbols_[request.name_expressions[i]] = code.symbols[i];
  }
  check_cubin_ = code.cubin;
  return std::nullopt;
}

void References::give_to(MeasureJob& job) const {
  job.references = references_;
  job.check_cubin = check_cubin_;
  job.check_symbols = check_symbols_;
}

}  // namespace kiln::tuner
