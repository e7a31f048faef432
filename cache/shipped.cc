// What the runtime asks of the data that ships with the library.
#include "cache/gpu_profiles.h"
#include "cache/presets.h"
#include "runtime/store.h"

namespace kiln {

std::vector<Preset> shipped_presets(const std::string& op) { return cache::presets_of(op); }
std::vector<Decision> shipped_decisions() { return cache::preset_decisions(); }
std::vector<cuda::DeviceInfo> shipped_gpu_profiles() { return cache::gpu_profiles(); }

}  // namespace kiln
