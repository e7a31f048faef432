#include "tuner/cli/roofline.h"

#include <algorithm>

#include "tuner/cli/output.h"

namespace kiln::cli {
namespace {

// Dense floating-point operations per clock and SM with fp32 accumulation, on the fastest units the architecture has
// for the type (vendor's architecture whitepapers).
double flops_per_clock(int cc, DType dtype) {
  const bool datacentre_ampere = cc == 80 || cc == 87;
  const double half = cc >= 120 ? 1024 : cc >= 100 ? 8192 : cc >= 90 ? 4096 : datacentre_ampere ? 2048 : 1024;
  const double vector = cc == 75 || datacentre_ampere ? 128 : 256;
  switch (dtype) {
    case DType::f16:
      return half;
    case DType::bf16:
      return cc >= 80 ? half : vector;
    case DType::tf32:
      return cc >= 80 ? half / 2 : vector;
    case DType::f8e4m3:
    case DType::f8e5m2:
      return cc >= 89 ? half * 2 : vector;
    case DType::i8:
    case DType::u8:
      return half * 2;
    default:
      return vector;
  }
}

}  // namespace

Roofline roofline(const OpSpec& op, const Problem& problem, const cuda::DeviceInfo& device) {
  Roofline roof;
  roof.flops = static_cast<double>(flops(op, problem));
  roof.bytes = static_cast<double>(bytes(op, problem));
  const auto dtype = problem.dtypes.find(op.check.dtype);
  if (dtype == problem.dtypes.end()) return roof;
  const double flops_per_us = flops_per_clock(device.cc(), dtype->second) * device.sm_count * device.clock_mhz;
  const double bytes_per_us = static_cast<double>(device.dram_gbps()) * 1e3;
  if (flops_per_us <= 0 || bytes_per_us <= 0) return roof;
  const double compute_us = roof.flops / flops_per_us;
  const double memory_us = roof.bytes / bytes_per_us;
  roof.memory_bound = memory_us > compute_us;
  roof.us = std::max(compute_us, memory_us);
  return roof;
}

std::string throughput(const Roofline& roof, double us) {
  if (us <= 0) return "";
  if (roof.memory_bound) return fixed(roof.bytes / us / 1e3, 0) + " GB/s";
  const double tflops = roof.flops / us / 1e6;
  return fixed(tflops, tflops < 10 ? 2 : tflops < 100 ? 1 : 0) + " TFLOP/s";
}

}  // namespace kiln::cli
