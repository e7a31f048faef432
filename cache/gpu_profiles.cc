#include "cache/gpu_profiles.h"

#include <algorithm>
#include <cctype>

#include <toml++/toml.h>

#include "base/embedded.h"
#include "kiln/error.h"

namespace kiln::cache {
namespace {

constexpr std::string_view kProfiles = "presets/gpus.toml";

struct Profile {
  std::string short_name;
  std::vector<std::string> aliases;
  cuda::DeviceInfo device;
};

// What two spellings of one name share: "RTX 4090", "rtx-4090", "rtx4090".
std::string folded(std::string_view name) {
  std::string result;
  for (const unsigned char c : name) {
    if (c != ' ' && c != '-' && c != '_') result += static_cast<char>(std::tolower(c));
  }
  return result;
}

// Every key must be there: a profile with a hole would be a hardware class that no device has.
template <class Value>
Value require(toml::node_view<const toml::node> node, const std::string& what) {
  const std::optional<Value> value = node.value<Value>();
  if (!value)
    throw Error(ErrorCode::internal, std::string(kProfiles) + ": " + what + " is missing or of the wrong kind");
  return *value;
}

Profile parse_profile(const toml::table& table) {
  Profile profile;
  profile.short_name = require<std::string>(table["short"], "gpu.short");
  const auto integer = [&](const char* key) {
    return require<std::int64_t>(table[key], profile.short_name + "." + key);
  };
  const auto small = [&](const char* key) { return static_cast<int>(integer(key)); };

  cuda::DeviceInfo& device = profile.device;
  device.name = require<std::string>(table["name"], profile.short_name + ".name");
  device.cc_major = static_cast<int>(require<std::int64_t>(table["cc"][0], profile.short_name + ".cc"));
  device.cc_minor = static_cast<int>(require<std::int64_t>(table["cc"][1], profile.short_name + ".cc"));
  device.sm_count = small("sm_count");
  device.memory_bytes = integer("memory_mib") << 20;
  device.l2_bytes = integer("l2_bytes");
  device.smem_per_sm = small("smem_per_sm");
  device.smem_per_block = small("smem_per_block");
  device.regs_per_sm = small("regs_per_sm");
  device.threads_per_sm = small("threads_per_sm");
  device.memory_clock_mhz = small("memory_clock_mhz");
  device.bus_width_bits = small("bus_width_bits");
  device.clock_mhz = small("clock_mhz");
  device.power_limit_watts = small("power_limit_watts");
  if (const toml::array* aliases = table["aliases"].as_array()) {
    for (const toml::node& alias : *aliases) {
      profile.aliases.push_back(require<std::string>(toml::node_view(alias), profile.short_name + ".aliases"));
    }
  }
  return profile;
}

std::vector<Profile> read_profiles() {
  const auto files = embedded_files();
  const auto file = std::find_if(files.begin(), files.end(), [](const EmbeddedFile& f) { return f.path == kProfiles; });
  if (file == files.end()) throw Error(ErrorCode::internal, std::string(kProfiles) + " is not embedded in this build");

  std::vector<Profile> profiles;
  try {
    const toml::table document = toml::parse(file->text, kProfiles);
    if (const toml::array* list = document["gpu"].as_array()) {
      for (const toml::node& entry : *list) {
        if (const toml::table* table = entry.as_table()) profiles.push_back(parse_profile(*table));
      }
    }
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::internal, std::string(kProfiles) + ": " + std::string(error.description()));
  }
  return profiles;
}

// Read when first asked for: a query asks for its device, then for those that the presets are of.
const std::vector<Profile>& profiles() {
  static const std::vector<Profile> kAll = read_profiles();
  return kAll;
}

}  // namespace

std::optional<cuda::DeviceInfo> gpu_profile(std::string_view name) {
  const std::string wanted = folded(name);
  for (const Profile& profile : profiles()) {
    if (folded(profile.short_name) == wanted) return profile.device;
    for (const std::string& alias : profile.aliases) {
      if (folded(alias) == wanted) return profile.device;
    }
  }
  return std::nullopt;
}

std::vector<cuda::DeviceInfo> gpu_profiles() {
  std::vector<cuda::DeviceInfo> devices;
  for (const Profile& profile : profiles()) devices.push_back(profile.device);
  return devices;
}

std::vector<std::string> gpu_profile_names() {
  std::vector<std::string> names;
  for (const Profile& profile : profiles()) names.push_back(profile.short_name);
  return names;
}

}  // namespace kiln::cache
