// From one translation unit to a cubin and a report of what it uses, through NVRTC.
//
// A compile is a pure function of its request: every header comes from `headers`, nothing is read from disk unless
// `include_paths` says so. Failure is a value, since a tuner meets it thousands of times.
// Thread-safe; NVRTC holds one lock per process, so parallel compiles need compile_pool.h.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace kiln::jit {

struct CompileRequest {
  std::string source;                          // the translation unit
  std::string file_name = "kiln_unit.cu";      // as it appears in messages
  std::map<std::string, std::string> headers;  // include name → text
  std::vector<std::string> name_expressions;   // the kernels wanted, e.g. "kiln::simt_gemm<kiln_baked::C>"
  std::string arch;                            // "sm_90a"
  std::vector<std::string> options;            // further NVRTC options, part of the kernel's key
  std::vector<std::string> include_paths;      // for templates that include toolkit headers
};

// What the compiler and the cubin say of one kernel.
struct KernelResources {
  std::string name_expression;
  std::string symbol;  // the lowered name, as in the cubin
  int registers = 0;   // per thread
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int stack_bytes = 0;
  int static_shared_bytes = 0;
  int constant_bytes = 0;
  int barriers = 0;
};

struct CompiledUnit {
  std::string cubin;                     // an ELF image for exactly CompileRequest::arch
  std::string ptx;                       // the PTX behind it
  std::vector<KernelResources> kernels;  // in the order of name_expressions
  std::vector<std::string> warnings;     // ptxas advisories by line, e.g. serialised wgmma (C7510)
  std::string log;                       // the whole NVRTC and ptxas log
  double milliseconds = 0;
};

struct CompileFailure {
  std::string message;  // one line: what failed first
  std::string log;      // the whole log
};

using CompileOutcome = std::variant<CompiledUnit, CompileFailure>;

// Compiles in this process. Throws Error{not_found} when no libnvrtc can be loaded (the message lists where it was
// looked for) and Error{unsupported} when this NVRTC does not know the architecture (naming library, version, list).
CompileOutcome compile(const CompileRequest& request);

}  // namespace kiln::jit
