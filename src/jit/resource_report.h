// What ptxas says under -v, read from an NVRTC log. Thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::jit {

// Of one kernel; functions that ptxas did not inline count with the kernel they are listed under.
struct PtxasUsage {
  int registers = 0;
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
};

struct PtxasReport {
  std::map<std::string, PtxasUsage> kernels;  // by symbol
  std::vector<std::string> advisories;        // lines about lost performance and warnings, e.g. C7510
};

PtxasReport read_ptxas_report(std::string_view log);

}  // namespace kiln::jit
