#include "kernel/kernel_key.h"

#include <set>

#include "base/digest.h"
#include "kernel/config_scope.h"
#include "kiln/error.h"

namespace kiln {
namespace {

std::string device_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::tf32:
      return "kiln::tf32";
    case DType::f16:
      return "kiln::f16";
    case DType::bf16:
      return "kiln::bf16";
    case DType::f8e4m3:
      return "kiln::f8e4m3";
    case DType::f8e5m2:
      return "kiln::f8e5m2";
    case DType::i8:
      return "signed char";
    case DType::u8:
      return "unsigned char";
    case DType::i32:
      return "int";
    case DType::u32:
      return "unsigned int";
    case DType::i64:
      return "long long";
  }
  throw Error(ErrorCode::internal, "a dtype without a device type");
}

std::string constant(const std::string& name, std::int64_t value) {
  return "  static constexpr long long " + name + " = " + std::to_string(value) + "LL;\n";
}

// The struct's members that follow from the problem alone: types, choices and baked dims.
std::string problem_members(const KernelTemplate& t, const Problem& given) {
  const Problem problem = in_full(*t.op, given);
  std::string members;
  for (const DTypeSpec& spec : t.op->dtypes) {
    members += "  using " + spec.name + "_t = " + device_type(problem.dtypes.at(spec.name)) + ";\n";
  }
  for (const ChoiceSpec& spec : t.op->choices) {
    for (const std::string& value : spec.values) {
      const bool chosen = problem.choices.at(spec.name) == value;
      members += "  static constexpr bool " + spec.name + "_is_" + value + (chosen ? " = true;\n" : " = false;\n");
    }
  }
  for (const std::string& dim : t.manifest.bake) members += constant(dim, problem.dims.at(dim));
  return members;
}

// The symbols whose values are fixed in the cubin: types, choices, baked dims and compile-time parameters.
std::set<std::string> baked_symbols(const KernelTemplate& t) {
  std::set<std::string> baked;
  std::set<std::string> dims;
  for (const DimSpec& dim : t.op->dims) dims.insert(dim.name);
  for (const std::string& symbol : problem_symbols(*t.op)) {
    // Alignment is a promise of one problem; another with the same cubin may promise less.
    if (dims.count(symbol) == 0 && symbol.rfind("align_", 0) != 0) baked.insert(symbol);
  }
  for (const std::string& dim : t.manifest.bake) baked.insert(dim);
  for (const ParamSpec& param : t.manifest.params) {
    if (!param.launch_time) baked.insert(param.name);
  }
  return baked;
}

std::string config_members(const KernelTemplate& t, const Problem& problem, const Config& config,
                           const cuda::DeviceInfo& device) {
  ConfigScope bound(t, problem, device);
  bound.set(config);
  std::set<std::string> baked = baked_symbols(t);
  std::string members;
  for (const ParamSpec& param : t.manifest.params) {
    if (!param.launch_time) members += constant(param.name, config.at(param.name));
  }
  for (const LetSpec& let : t.manifest.lets) {
    bool fixed = true;
    for (const std::string& symbol : let.value.symbols()) fixed = fixed && baked.count(symbol) != 0;
    if (!fixed) continue;
    baked.insert(let.name);
    members += constant(let.name, bound.scope().get(let.name));
  }
  return members;
}

jit::CompileRequest request(const KernelTemplate& t, const std::vector<LaunchSpec>& launches,
                            const std::string& members, const cuda::DeviceInfo& device) {
  jit::CompileRequest result;
  result.source = "#include \"ptx/types.cuh\"\n#include \"" + t.include + "\"\nnamespace kiln_baked {\nstruct C {\n" +
                  members + "};\n}\n";
  result.file_name = t.manifest.name + ".cu";
  result.headers = t.headers;
  for (const LaunchSpec& launch : launches) result.name_expressions.push_back(launch.kernel + "<kiln_baked::C>");
  result.arch = target_arch(t, device);
  result.options = t.manifest.options;
  result.include_paths = t.include_paths;
  return result;
}

}  // namespace

std::string KernelKey::digest() const {
  for (const std::string* part : {&template_digest, &constants, &target, &nvrtc}) {
    if (part->empty()) throw Error(ErrorCode::internal, "a kernel key with an unknown component");
  }
  Sha256 sha;
  for (const std::string* part : {&template_digest, &config, &constants, &target, &nvrtc, &flags}) sha.field(*part);
  return sha.hex();
}

KernelKey kernel_key(const KernelTemplate& t, const Problem& problem, const Config& config,
                     const cuda::DeviceInfo& device, const std::string& nvrtc_version) {
  KernelKey key;
  key.template_digest = t.digest.hex();
  key.config = config_members(t, problem, config, device);
  key.constants = problem_members(t, problem) + "|";
  key.target = target_arch(t, device);
  key.nvrtc = nvrtc_version;
  for (const std::string& option : t.manifest.options) key.flags += option + " ";
  return key;
}

jit::CompileRequest compile_request(const KernelTemplate& t, const Problem& problem, const Config& config,
                                    const cuda::DeviceInfo& device) {
  return request(t, t.manifest.launches, problem_members(t, problem) + config_members(t, problem, config, device),
                 device);
}

jit::CompileRequest check_compile_request(const KernelTemplate& t, const Problem& problem,
                                          const cuda::DeviceInfo& device) {
  return request(t, t.manifest.check_launches, problem_members(t, problem), device);
}

}  // namespace kiln
