#include "runtime/kernel_cache.h"

#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "jit/nvrtc.h"
#include "kernel/kernel_key.h"
#include "kiln/error.h"

namespace kiln {
namespace {

constexpr char kNvrtcFact[] = "nvrtc";

LoadedKernelsPtr open_cubin(const std::string& cubin, const std::vector<std::string>& symbols) {
  auto loaded = std::make_shared<LoadedKernels>(cubin);
  for (const std::string& symbol : symbols) loaded->kernels.push_back(loaded->library.kernel(symbol));
  return loaded;
}

}  // namespace

std::string nvrtc_version_for_keys(Store& store) {
  if (!jit::Nvrtc::loaded()) {
    if (auto version = store.find_fact(kNvrtcFact)) return *version;
  }
  return jit::Nvrtc::instance().version();
}

StoredCubin to_stored_cubin(const std::string& key, const KernelTemplate& t, const Config& config,
                            const jit::CompiledUnit& unit) {
  StoredCubin stored{key, unit.cubin, t.manifest.name + " " + to_text(config), "", {}};
  Json resources = Json::array();
  for (const jit::KernelResources& kernel : unit.kernels) {
    stored.symbols.push_back(kernel.symbol);
    resources.push_back({{"kernel", kernel.name_expression},
                         {"registers", kernel.registers},
                         {"spill_store_bytes", kernel.spill_store_bytes},
                         {"spill_load_bytes", kernel.spill_load_bytes},
                         {"stack_bytes", kernel.stack_bytes},
                         {"static_shared_bytes", kernel.static_shared_bytes}});
  }
  stored.resources = resources.dump();
  return stored;
}

LoadedKernelsPtr KernelCache::get(const KernelTemplate& t, const Problem& problem, const Config& config) {
  const std::string key = kernel_key(t, problem, config, device_, nvrtc_version_for_keys(store_)).digest();
  std::promise<LoadedKernelsPtr> promise;
  {
    std::unique_lock lock(mutex_);
    if (const auto it = loaded_.find(key); it != loaded_.end()) {
      const auto future = it->second;
      lock.unlock();
      return future.get();
    }
    loaded_.emplace(key, promise.get_future().share());
  }
  try {
    LoadedKernelsPtr kernels = load(t, problem, config, key);
    promise.set_value(kernels);
    return kernels;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    loaded_.erase(key);
    throw;
  }
}

LoadedKernelsPtr KernelCache::load(const KernelTemplate& t, const Problem& problem, const Config& config,
                                   const std::string& stored_key) {
  if (const auto stored = store_.find_cubin(stored_key)) {
    try {
      return open_cubin(stored->cubin, stored->symbols);
    } catch (const Error& error) {
      log("runtime")->warn("stored cubin of {} {} is not usable and is compiled anew: {}", t.manifest.name,
                           to_text(config), error.what());
    }
  }
  const jit::CompileOutcome outcome = jit::compile(compile_request(t, problem, config, device_));
  if (const auto* failure = std::get_if<jit::CompileFailure>(&outcome)) {
    throw Error(ErrorCode::compile_failed, "template " + t.manifest.name + " with " + to_text(config) +
                                               " does not compile: " + failure->message + "\n" + failure->log);
  }
  const auto& unit = std::get<jit::CompiledUnit>(outcome);
  // Compiled by the NVRTC now loaded, which need not be the one that the key was looked up with.
  const std::string version = jit::Nvrtc::instance().version();
  const std::string key = kernel_key(t, problem, config, device_, version).digest();
  store_.put_cubin(to_stored_cubin(key, t, config, unit));
  if (store_.find_fact(kNvrtcFact) != version) store_.put_fact(kNvrtcFact, version);
  log("runtime")->info("compiled {} {} in {:.0f} ms", t.manifest.name, to_text(config), unit.milliseconds);
  std::vector<std::string> symbols;
  for (const jit::KernelResources& kernel : unit.kernels) symbols.push_back(kernel.symbol);
  return open_cubin(unit.cubin, symbols);
}

}  // namespace kiln
