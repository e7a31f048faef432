#include "jit/compile.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>

#include "base/log.h"
#include "base/unique_handle.h"
#include "jit/cubin.h"
#include "jit/nvrtc.h"
#include "jit/resource_report.h"
#include "kiln/error.h"

namespace kiln::jit {
namespace {

struct ProgramTraits {
  using Handle = nvrtcProgram;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle program) noexcept { Nvrtc::instance().nvrtcDestroyProgram(&program); }
};
using UniqueProgram = UniqueHandle<ProgramTraits>;

// 90 for "sm_90" and "sm_90a"; empty for anything else.
std::optional<int> arch_number(const std::string& arch) {
  static const std::string kPrefix = "sm_";
  if (arch.rfind(kPrefix, 0) != 0) return std::nullopt;
  std::size_t end = kPrefix.size();
  while (end < arch.size() && std::isdigit(static_cast<unsigned char>(arch[end])) != 0) ++end;
  const std::string digits = arch.substr(kPrefix.size(), end - kPrefix.size());
  const std::string suffix = arch.substr(end);
  if (digits.empty() || digits.size() > 4 || (!suffix.empty() && suffix != "a" && suffix != "f")) return std::nullopt;
  return std::stoi(digits);
}

void check_arch(const Nvrtc& nvrtc, const std::string& arch) {
  const auto number = arch_number(arch);
  if (!number) {
    throw Error(ErrorCode::invalid_argument, "architecture '" + arch + "' is not of the form sm_90 or sm_90a");
  }
  const bool has_own_features = *number >= 90;
  const bool wants_own_features = std::isdigit(static_cast<unsigned char>(arch.back())) == 0;
  const auto& known = nvrtc.supported_archs();
  const bool is_known = std::find(known.begin(), known.end(), *number) != known.end();
  if (is_known && (has_own_features || !wants_own_features)) return;
  std::string list;
  for (const int each : known) list += (list.empty() ? "sm_" : ", sm_") + std::to_string(each);
  throw Error(ErrorCode::unsupported, "NVRTC " + nvrtc.version() + " (" + nvrtc.path() + ") does not compile for " +
                                          arch + "; it knows " + list + ". A newer NVRTC may: set KILN_NVRTC");
}

std::vector<std::string> compile_options(const Nvrtc& nvrtc, const CompileRequest& request) {
  std::vector<std::string> options{
      "-arch=" + request.arch,
      "-std=c++20",
      // Headers come from the request alone, never from the folder the process happens to run in.
      "--no-source-include",
      "--ptxas-options=-v",
  };
  if (nvrtc.at_least(12, 9)) {
    // From here on NVRTC keeps results of its own; a hit would come without the log of ptxas.
    options.emplace_back("--no-cache");
    // The same request gives the same bytes.
    options.emplace_back("--frandom-seed=kiln");
  }
  for (const std::string& path : request.include_paths) options.push_back("-I" + path);
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

UniqueProgram create_program(const Nvrtc& nvrtc, const CompileRequest& request) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const auto& [name, text] : request.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  nvrtcProgram program = nullptr;
  check(nvrtc.nvrtcCreateProgram(&program, request.source.c_str(), request.file_name.c_str(),
                                 static_cast<int>(names.size()), texts.data(), names.data()),
        "nvrtcCreateProgram");
  UniqueProgram owner(program);
  for (const std::string& expression : request.name_expressions) {
    check(nvrtc.nvrtcAddNameExpression(program, expression.c_str()), "nvrtcAddNameExpression");
  }
  return owner;
}

// Reads one of the program's outputs, each of which NVRTC gives as a size and a copy.
std::string read_output(nvrtcProgram program, decltype(&::nvrtcGetPTXSize) get_size, decltype(&::nvrtcGetPTX) get,
                        const char* call) {
  std::size_t size = 0;
  check(get_size(program, &size), call);
  std::string bytes(size, '\0');
  if (size > 0) check(get(program, bytes.data()), call);
  return bytes;
}

// NVRTC ends texts with a zero byte, and a log of ptxas with two.
std::string without_final_zeros(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// The first line that names an error, or what NVRTC calls the failure.
std::string first_error(const std::string& log, const std::string& otherwise) {
  std::size_t begin = 0;
  while (begin < log.size()) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    std::string line = log.substr(begin, end - begin);
    if (line.find("error") != std::string::npos || line.find("fatal") != std::string::npos) return line;
    begin = end + 1;
  }
  return otherwise;
}

KernelResources resources_of(const CubinInfo& cubin, const PtxasReport& report, const std::string& name_expression,
                             const std::string& symbol) {
  KernelResources resources;
  resources.name_expression = name_expression;
  resources.symbol = symbol;
  for (const CubinKernel& kernel : cubin.kernels) {
    if (kernel.symbol != symbol) continue;
    resources.registers = kernel.registers;
    resources.stack_bytes = kernel.local_bytes;
    resources.static_shared_bytes = kernel.static_shared_bytes;
    resources.constant_bytes = kernel.constant_bytes;
    resources.barriers = kernel.barriers;
  }
  // Spills are known to ptxas alone; where both speak, the image is what will run.
  const auto found = report.kernels.find(symbol);
  if (found == report.kernels.end()) {
    log("jit")->warn("ptxas says nothing of {}: its spills are unknown", symbol);
    return resources;
  }
  const PtxasUsage& usage = found->second;
  resources.spill_store_bytes = usage.spill_store_bytes;
  resources.spill_load_bytes = usage.spill_load_bytes;
  resources.stack_bytes = std::max(resources.stack_bytes, usage.stack_bytes);
  if (usage.registers != resources.registers) {
    log("jit")->warn("{}: ptxas reports {} registers, the cubin says {}", symbol, usage.registers, resources.registers);
  }
  return resources;
}

// Fills everything but the log and the time.
void read_result(const Nvrtc& nvrtc, nvrtcProgram program, const CompileRequest& request, CompiledUnit* unit) {
  unit->cubin = read_output(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  unit->ptx = without_final_zeros(read_output(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, "nvrtcGetPTX"));
  std::string problem;
  const auto cubin = read_cubin(unit->cubin, &problem);
  if (!cubin) throw Error(ErrorCode::compile_failed, "NVRTC made an image that is no cubin: " + problem);
  PtxasReport report = read_ptxas_report(unit->log);
  unit->warnings = std::move(report.advisories);
  for (const std::string& expression : request.name_expressions) {
    const char* symbol = nullptr;
    check(nvrtc.nvrtcGetLoweredName(program, expression.c_str(), &symbol), "nvrtcGetLoweredName");
    unit->kernels.push_back(resources_of(*cubin, report, expression, symbol));
  }
}

}  // namespace

CompileOutcome compile(const CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const Nvrtc& nvrtc = Nvrtc::instance();
  check_arch(nvrtc, request.arch);
  CompiledUnit unit;
  try {
    const UniqueProgram program = create_program(nvrtc, request);
    const auto options = compile_options(nvrtc, request);
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    const nvrtcResult result =
        nvrtc.nvrtcCompileProgram(program.get(), static_cast<int>(pointers.size()), pointers.data());
    unit.log = without_final_zeros(
        read_output(program.get(), nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, "nvrtcGetProgramLog"));
    if (result != NVRTC_SUCCESS) {
      return CompileFailure{first_error(unit.log, nvrtc.nvrtcGetErrorString(result)), unit.log};
    }
    read_result(nvrtc, program.get(), request, &unit);
  } catch (const Error& error) {
    return CompileFailure{error.what(), unit.log};
  }
  unit.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return unit;
}

}  // namespace kiln::jit
