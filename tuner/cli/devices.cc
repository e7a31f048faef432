// kiln devices: the GPUs of this machine and the profiles that --gpu takes.
#include <iostream>

#include "cache/gpu_profiles.h"
#include "cuda/device.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"

namespace kiln::cli {
namespace {

Json to_json(const cuda::DeviceInfo& device) {
  return {{"name", device.name},
          {"arch", device.arch()},
          {"sm_count", device.sm_count},
          {"memory_bytes", device.memory_bytes},
          {"l2_bytes", device.l2_bytes},
          {"smem_per_block", device.smem_per_block},
          {"dram_gbps", device.dram_gbps()},
          {"clock_mhz", device.clock_mhz},
          {"power_limit_watts", device.power_limit_watts},
          {"hardware_class", cuda::hardware_class(device)}};
}

std::vector<std::string> cells(const std::string& label, const cuda::DeviceInfo& device) {
  return {label,
          device.name,
          device.arch(),
          std::to_string(device.sm_count),
          byte_size(device.memory_bytes),
          byte_size(device.l2_bytes),
          std::to_string(device.dram_gbps()) + " GB/s",
          cuda::hardware_class(device)};
}

Table device_table(const std::string& label) {
  return Table({label, "name", "target", ">SMs", ">memory", ">L2", ">bandwidth", "hardware class"});
}

}  // namespace

int run_devices(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("json", "as JSON");
  const auto values =
      parse({.usage = "kiln devices [options]",
             .summary = "Lists the GPUs here and the profiles that --gpu takes. Exits 3 without a GPU."},
            options, arguments);
  if (!values) return done;

  std::vector<cuda::DeviceInfo> devices;
  std::string absence = "the driver shows no GPU";
  try {
    devices = cuda::list_devices();
  } catch (const Error& error) {
    absence = error.what();
  }
  if (values->count("json") != 0) {
    Json json = {{"devices", Json::array()}, {"profiles", Json::array()}};
    for (const auto& device : devices) {
      Json entry = to_json(device);
      entry["index"] = device.ordinal;
      entry["uuid"] = device.uuid;
      json["devices"].push_back(std::move(entry));
    }
    for (const std::string& name : cache::gpu_profile_names()) {
      Json entry = to_json(cache::gpu_profile(name).value());
      entry["profile"] = name;
      json["profiles"].push_back(std::move(entry));
    }
    if (devices.empty()) json["absence"] = absence;
    print_json(json);
    return devices.empty() ? no_device : done;
  }

  if (devices.empty()) {
    std::cout << "No GPU here: " << absence << "\n\n";
  } else {
    Table table = device_table("GPU");
    for (const auto& device : devices) table.add(cells(std::to_string(device.ordinal) + " " + device.uuid, device));
    std::cout << table << '\n';
  }
  Table profiles = device_table("--gpu");
  for (const std::string& name : cache::gpu_profile_names())
    profiles.add(cells(name, cache::gpu_profile(name).value()));
  std::cout << profiles;
  return devices.empty() ? no_device : done;
}

}  // namespace kiln::cli
