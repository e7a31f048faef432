// How fast a device could be at best: the larger of the time for the arithmetic and the time for the bytes, at maximum
// clocks. A ceiling, not a forecast: under load no GPU holds its maximum clock. Thread-safe.
#pragma once

#include "cuda/device.h"
#include "kernel/op_spec.h"

namespace kiln::cli {

struct Roofline {
  double us = 0;              // 0: unknown
  bool memory_bound = false;  // the bytes rule
  double flops = 0;
  double bytes = 0;

  double share(double measured_us) const { return measured_us > 0 ? us / measured_us : 0; }
};

Roofline roofline(const OpSpec& op, const Problem& problem, const cuda::DeviceInfo& device);

// "743 TFLOP/s" or "3.71 TB/s": what ran in `us` microseconds, by the bound that rules.
std::string throughput(const Roofline& roof, double us);

}  // namespace kiln::cli
