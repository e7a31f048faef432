#include "tuner/measure/loaded_kernel.h"

#include "kiln/error.h"

namespace kiln::tuner {

LoadedKernel::LoadedKernel(const KernelTemplate& t, const std::vector<LaunchSpec>& launches, const Problem& problem,
                           const Config& config, const KernelCode& code, const cuda::DeviceInfo& device,
                           CUdevice cu_device)
    : library_(code.cubin),
      plan_(build_plan(t, launches, problem, config, device, EncodeMaps::yes)),
      deterministic_(t.manifest.deterministic) {
  if (code.symbols.size() != launches.size()) {
    throw Error(ErrorCode::internal, t.manifest.name + ": " + std::to_string(code.symbols.size()) +
                                         " compiled kernels for " + std::to_string(launches.size()) + " launches");
  }
  for (const std::string& symbol : code.symbols) kernels_.push_back(library_.kernel(symbol));
  allow_resources(plan_, kernels_, cu_device);
}

void LoadedKernel::launch(std::span<const CUdeviceptr> pointers, std::span<const ScalarValue> scalars,
                          CUdeviceptr workspace, CUstream stream) const {
  run(plan_, kernels_, pointers, scalars, workspace, stream);
}

}  // namespace kiln::tuner
