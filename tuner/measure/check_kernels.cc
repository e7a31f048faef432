#include "tuner/measure/check_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/embedded.h"
#include "cuda/driver.h"
#include "kiln/error.h"
#include "tuner/measure/offsets.h"

namespace kiln::tuner {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::string_view kTemplates = "templates/";

std::string cpp_type(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return "kiln::int8_t";
    case DType::u8:
      return "kiln::uint8_t";
    case DType::i32:
      return "kiln::int32_t";
    case DType::u32:
      return "kiln::uint32_t";
    case DType::i64:
      return "kiln::int64_t";
    default:
      return "kiln::" + std::string(to_string(dtype));
  }
}

std::string fill_name(Distribution distribution, DType dtype) {
  const char* kernel = "fill_normal";
  if (distribution == Distribution::uniform) kernel = "fill_uniform";
  if (distribution == Distribution::positive) kernel = "fill_positive";
  return std::string("kiln::check::") + kernel + "<" + cpp_type(dtype) + ">";
}

std::string poison_name(DType dtype) { return "kiln::check::poison<" + cpp_type(dtype) + ">"; }

std::string pair_name(const char* kernel, DType first, DType second) {
  return std::string("kiln::check::") + kernel + "<" + cpp_type(first) + ", " + cpp_type(second) + ">";
}

}  // namespace

jit::CompileRequest check_kernels_request(const OpSpec& op, const Problem& problem, const cuda::DeviceInfo& device) {
  jit::CompileRequest request;
  request.source = "#include \"check/check.cuh\"\n";
  request.file_name = "kiln_check.cu";
  request.arch = device.arch();
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.path.starts_with(kTemplates) || !file.path.ends_with(".cuh")) continue;
    const std::string_view name = file.path.substr(kTemplates.size());
    if (name.starts_with("check/") || name.starts_with("ptx/")) {
      request.headers.emplace(std::string(name), std::string(file.text));
    }
  }

  std::set<std::string> names;
  const std::vector<OperandLayout> layouts = operand_layouts(op, problem);
  const std::vector<OperandLayout> reference = operand_layouts(op, reference_problem(op, problem));
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const DType dtype = layouts[i].dtype;
    if (layouts[i].distribution != Distribution::offsets) names.insert(fill_name(layouts[i].distribution, dtype));
    names.insert(pair_name("compare", dtype, dtype));
    if (layouts[i].role == Role::in) continue;
    names.insert(poison_name(dtype));
    names.insert(pair_name("convert", dtype, reference[i].dtype));
    names.insert(pair_name("compare", reference[i].dtype, dtype));
  }
  request.name_expressions.assign(names.begin(), names.end());
  return request;
}

double Comparison::relative_error() const {
  return sum_sq_ref > 0 ? std::sqrt(sum_sq_diff / sum_sq_ref) : std::sqrt(sum_sq_diff);
}

CheckKernels::CheckKernels(const std::string& cubin, std::map<std::string, std::string> symbols, int sm_count,
                           CUstream stream)
    : library_(cubin),
      symbols_(std::move(symbols)),
      max_blocks_(static_cast<unsigned>(std::max(1, sm_count)) * 16),
      stream_(stream),
      result_(sizeof(Comparison)) {}

void CheckKernels::launch(const std::string& name_expression, std::int64_t elements, void** arguments) {
  if (elements <= 0) return;
  const auto symbol = symbols_.find(name_expression);
  if (symbol == symbols_.end()) {
    throw Error(ErrorCode::internal, "check kernel " + name_expression + " was not compiled for this job");
  }
  CUlaunchConfig config{};
  const std::int64_t blocks = (elements + kThreads - 1) / kThreads;
  config.gridDimX = static_cast<unsigned>(std::min<std::int64_t>(blocks, max_blocks_));
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = kThreads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream_;
  const CUkernel kernel = library_.kernel(symbol->second);
  cuda::check(cuda::driver().cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), arguments, nullptr),
              "cuLaunchKernelEx");
}

// Each offset depends on all before it, and there are few: they come from the host.
void CheckKernels::fill_offsets(const OperandLayout& operand, CUdeviceptr to, std::uint64_t seed) {
  if (operand.elements <= 0) return;
  if (operand.dtype != DType::i32 || operand.offsets.total > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::invalid_argument, "the offsets of " + operand.name + " are of " +
                                                 std::string(to_string(operand.dtype)) + " and go up to " +
                                                 std::to_string(operand.offsets.total) + "; allowed are i32");
  }
  const std::vector<std::int64_t> offsets = random_offsets(operand.elements, operand.offsets, seed);
  const std::vector<std::int32_t> narrow(offsets.begin(), offsets.end());
  // From pageable memory, which is free again when the call returns.
  cuda::check(cuda::driver().cuMemcpyHtoDAsync(to, narrow.data(), narrow.size() * sizeof(std::int32_t), stream_),
              "cuMemcpyHtoDAsync");
}

void CheckKernels::fill(const OperandLayout& operand, CUdeviceptr to, std::uint64_t seed) {
  if (operand.distribution == Distribution::offsets) return fill_offsets(operand, to, seed);
  std::int64_t n = operand.elements;
  void* arguments[] = {&to, &n, &seed};
  launch(fill_name(operand.distribution, operand.dtype), n, arguments);
}

void CheckKernels::poison(DType dtype, CUdeviceptr to, std::int64_t elements) {
  void* arguments[] = {&to, &elements};
  launch(poison_name(dtype), elements, arguments);
}

void CheckKernels::convert(DType from_dtype, CUdeviceptr from, DType to_dtype, CUdeviceptr to, std::int64_t elements) {
  void* arguments[] = {&from, &to, &elements};
  launch(pair_name("convert", from_dtype, to_dtype), elements, arguments);
}

Comparison CheckKernels::compare(DType ref_dtype, CUdeviceptr ref, DType out_dtype, CUdeviceptr out,
                                 std::int64_t elements) {
  const cuda::Driver& driver = cuda::driver();
  CUdeviceptr result = result_.get();
  cuda::check(driver.cuMemsetD8Async(result, 0, sizeof(Comparison), stream_), "cuMemsetD8Async");
  void* arguments[] = {&ref, &out, &elements, &result};
  launch(pair_name("compare", ref_dtype, out_dtype), elements, arguments);
  Comparison comparison;
  cuda::check(driver.cuMemcpyDtoHAsync(&comparison, result, sizeof(comparison), stream_), "cuMemcpyDtoHAsync");
  cuda::check(driver.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  return comparison;
}

}  // namespace kiln::tuner
