#include "tuner/kernel_builder.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>

#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "kernel/kernel_key.h"

namespace kiln::tuner {
namespace {

constexpr std::chrono::milliseconds kPoll{20};

// ptxas advisories after which a wgmma kernel runs one instruction at a time, or with fewer registers than it asked
// for.
constexpr std::array<std::string_view, 7> kSerialised{"C7504", "C7508", "C7510", "C7511", "C7515", "C7519", "C7520"};

int largest(const std::vector<jit::KernelResources>& kernels, int jit::KernelResources::*field) {
  int most = 0;
  for (const jit::KernelResources& kernel : kernels) most = std::max(most, kernel.*field);
  return most;
}

BuiltKernel to_built(jit::CompiledUnit unit) {
  BuiltKernel built;
  built.code.cubin = std::move(unit.cubin);
  for (const jit::KernelResources& kernel : unit.kernels) built.code.symbols.push_back(kernel.symbol);
  built.resources = std::move(unit.kernels);
  built.warnings = std::move(unit.warnings);
  return built;
}

std::string request_key(const jit::CompileRequest& request, const std::string& nvrtc_version) {
  Sha256 sha;
  sha.field("unit").field(nvrtc_version).field(request.arch).field(request.source);
  for (const auto& [name, text] : request.headers) sha.field(name).field(text);
  for (const std::string& name : request.name_expressions) sha.field(name);
  for (const std::string& option : request.options) sha.field(option);
  return sha.hex();
}

}  // namespace

int BuiltKernel::registers() const { return largest(resources, &jit::KernelResources::registers); }

int BuiltKernel::static_shared_bytes() const { return largest(resources, &jit::KernelResources::static_shared_bytes); }

int BuiltKernel::spill_bytes() const {
  int bytes = 0;
  for (const jit::KernelResources& kernel : resources) bytes += kernel.spill_store_bytes + kernel.spill_load_bytes;
  return bytes;
}

std::string BuiltKernel::resource_fault() const {
  if (spill_bytes() > 0) return "spills " + std::to_string(spill_bytes()) + " bytes of registers to local memory";
  for (const std::string& warning : warnings) {
    for (const std::string_view code : kSerialised) {
      if (warning.find(code) != std::string::npos) return "wgmma is serialised: " + warning;
    }
  }
  return {};
}

KernelBuilder::KernelBuilder(Compiler& compiler, Store& store, std::string nvrtc_version, cuda::DeviceInfo device)
    : compiler_(compiler), store_(store), nvrtc_version_(std::move(nvrtc_version)), device_(std::move(device)) {}

const std::string& KernelBuilder::key_of(const KernelTemplate& t, const Problem& problem, const Config& config) {
  std::string name = t.manifest.name + " " + to_text(config) + " " + problem.canonical();
  if (const auto known = keys_.find(name); known != keys_.end()) return known->second;
  return keys_.emplace(std::move(name), kernel_key(t, problem, config, device_, nvrtc_version_).digest()).first->second;
}

KernelBuilder::Pending& KernelBuilder::start(const std::string& key, const std::string& description,
                                             const std::function<jit::CompileRequest()>& request) {
  const auto [entry, is_new] = pending_.try_emplace(key);
  Pending& pending = entry->second;
  if (!is_new) return pending;
  pending.description = description;
  if (const auto stored = store_.find_cubin(key)) {
    BuiltKernel built;
    built.code = {.cubin = stored->cubin, .symbols = stored->symbols};
    resources_from_text(stored->resources, &built);
    pending.built = std::move(built);
    pending.is_stored = true;
  } else {
    pending.outcome = compiler_.submit(request());
  }
  return pending;
}

void KernelBuilder::prefetch(const KernelTemplate& t, const Problem& problem, const Config& config) {
  start(key_of(t, problem, config), describe(t.manifest.name, config),
        [&] { return compile_request(t, problem, config, device_); });
}

std::optional<std::variant<BuiltKernel, Failure>> KernelBuilder::get(const KernelTemplate& t, const Problem& problem,
                                                                     const Config& config,
                                                                     const std::function<bool()>& stop) {
  const std::string key = key_of(t, problem, config);
  Pending& pending =
      start(key, describe(t.manifest.name, config), [&] { return compile_request(t, problem, config, device_); });
  return wait(key, pending, stop);
}

std::optional<std::variant<BuiltKernel, Failure>> KernelBuilder::get(const jit::CompileRequest& request,
                                                                     const std::string& description,
                                                                     const std::function<bool()>& stop) {
  const std::string key = request_key(request, nvrtc_version_);
  return wait(key, start(key, description, [&] { return request; }), stop);
}

std::optional<std::variant<BuiltKernel, Failure>> KernelBuilder::wait(const std::string& key, Pending& pending,
                                                                      const std::function<bool()>& stop) {
  if (pending.built) return pending.built;
  while (pending.outcome.wait_for(kPoll) != std::future_status::ready) {
    if (stop && stop()) return std::nullopt;
  }
  jit::CompileOutcome outcome = pending.outcome.get();
  if (auto* failure = std::get_if<jit::CompileFailure>(&outcome)) {
    pending.built =
        Failure{.kind = FailureKind::compile, .message = std::move(failure->message), .log = std::move(failure->log)};
    return pending.built;
  }
  BuiltKernel built = to_built(std::get<jit::CompiledUnit>(std::move(outcome)));
  const StoredCubin stored{.key = key,
                           .cubin = built.code.cubin,
                           .description = pending.description + " " + device_.arch(),
                           .resources = resources_to_text(built.resources, built.warnings),
                           .symbols = built.code.symbols};
  pending.is_stored = store_.put_cubin(stored);
  if (!pending.is_stored) log("tuner")->debug("the cubin of {} could not be stored", pending.description);
  pending.built = std::move(built);
  return pending.built;
}

void KernelBuilder::forget_built() {
  // A failure, and what could not be stored, would be compiled again for the next problem that shares the kernel.
  std::erase_if(pending_, [](const auto& entry) { return entry.second.is_stored; });
  keys_.clear();
}

std::string resources_to_text(const std::vector<jit::KernelResources>& resources,
                              const std::vector<std::string>& warnings) {
  Json list = Json::array();
  for (const jit::KernelResources& kernel : resources) {
    list.push_back({{"kernel", kernel.name_expression},
                    {"registers", kernel.registers},
                    {"spill_store_bytes", kernel.spill_store_bytes},
                    {"spill_load_bytes", kernel.spill_load_bytes},
                    {"stack_bytes", kernel.stack_bytes},
                    {"static_shared_bytes", kernel.static_shared_bytes}});
  }
  for (const std::string& warning : warnings) list.push_back({{"warning", warning}});
  return list.dump();
}

void resources_from_text(const std::string& text, BuiltKernel* built) {
  const Json list = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  for (const Json& entry : list) {
    if (!entry.is_object()) continue;
    if (entry.contains("warning") && entry.at("warning").is_string()) {
      built->warnings.push_back(entry.at("warning"));
      continue;
    }
    const auto number = [&](const char* name) {
      return entry.contains(name) && entry.at(name).is_number() ? entry.at(name).get<int>() : 0;
    };
    jit::KernelResources kernel;
    if (entry.contains("kernel") && entry.at("kernel").is_string()) kernel.name_expression = entry.at("kernel");
    kernel.registers = number("registers");
    kernel.spill_store_bytes = number("spill_store_bytes");
    kernel.spill_load_bytes = number("spill_load_bytes");
    kernel.stack_bytes = number("stack_bytes");
    kernel.static_shared_bytes = number("static_shared_bytes");
    built->resources.push_back(std::move(kernel));
  }
}

}  // namespace kiln::tuner
