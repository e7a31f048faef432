#include "kernel/launch_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cuda/driver.h"
#include "cuda/library.h"
#include "cuda/tensor_map.h"
#include "kernel/config_scope.h"
#include "kiln/error.h"

namespace kiln {
namespace {

constexpr std::uint64_t kWorkspaceAlignment = 256;
constexpr std::size_t kMaxArgumentBytes =
    4096;  // CUDA's limit on kernel parameters before 12.1; no template needs more
constexpr std::size_t kMaxArguments = 64;
constexpr int kMaxClusterBlocks = 16;  // more than 8 only on some GPUs, which their driver decides
// Any 16-byte aligned address does for encoding: a call replaces it by the operand's.
constexpr CUdeviceptr kPlaceholderAddress = CUdeviceptr{1} << 20;

std::size_t round_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

class PlanBuilder {
 public:
  PlanBuilder(const KernelTemplate& t, const Problem& problem, const Config& config, const cuda::DeviceInfo& device,
              EncodeMaps encode)
      : t_(t), problem_(in_full(*t.op, problem)), encode_(encode), bound_(t, problem, device) {
    bound_.set(config);
  }

  LaunchPlan build(const std::vector<LaunchSpec>& launches) {
    lay_out_workspace();
    for (const OperandSpec& operand : t_.op->operands) {
      plan_.touched.push_back(elements(operand, bound_.scope()) > 0);
      plan_.alignment.push_back(static_cast<std::uint32_t>(problem_.alignments.at(operand.name)));
    }
    for (std::size_t i = 0; i < launches.size(); ++i) {
      path_ = t_.manifest.name + ": launch[" + std::to_string(i) + "]";
      if (value(launches[i].when) != 0) plan_.launches.push_back(plan_launch(launches[i], i));
    }
    return std::move(plan_);
  }

 private:
  std::int64_t value(const Expression& e) { return e.evaluate(bound_.scope()); }

  [[noreturn]] void fail(const std::string& field, const std::string& message) const {
    throw Error(ErrorCode::invalid_argument, path_ + "." + field + ": " + message);
  }

  void lay_out_workspace() {
    for (const WorkspaceSpec& workspace : t_.manifest.workspaces) {
      const std::int64_t bytes = value(workspace.bytes);
      if (bytes < 0) {
        throw Error(ErrorCode::invalid_argument, t_.manifest.name + ": workspace." + workspace.name + ".bytes is " +
                                                     std::to_string(bytes) + "; it must not be negative");
      }
      const std::uint64_t offset = plan_.workspace_bytes;
      workspace_offset_.push_back(offset);
      if (workspace.zero && bytes > 0) plan_.zero.push_back({offset, static_cast<std::uint64_t>(bytes)});
      plan_.workspace_bytes = round_up(offset + static_cast<std::uint64_t>(bytes), kWorkspaceAlignment);
    }
  }

  void extents(unsigned (&out)[3], const std::vector<Expression>& expressions, const char* field,
               const std::array<std::int64_t, 3>& limits) {
    for (std::size_t i = 0; i < expressions.size(); ++i) {
      const std::int64_t extent = value(expressions[i]);
      const std::int64_t limit = limits[i];
      if (extent < 1 || extent > limit) {
        fail(field, "'" + expressions[i].text() + "' is " + std::to_string(extent) + "; allowed are 1 to " +
                        std::to_string(limit) + " (use `when` to launch nothing)");
      }
      out[i] = static_cast<unsigned>(extent);
    }
  }

  PlannedLaunch plan_launch(const LaunchSpec& spec, std::size_t index) {
    PlannedLaunch launch;
    launch.kernel_index = index;
    extents(launch.grid, spec.grid, "grid", {2147483647, 65535, 65535});
    extents(launch.block, spec.block, "block", {1024, 1024, 64});
    extents(launch.cluster, spec.cluster, "cluster", {kMaxClusterBlocks, kMaxClusterBlocks, kMaxClusterBlocks});
    if (launch.block[0] * launch.block[1] * launch.block[2] > 1024) {
      fail("block", "has more than 1024 threads");
    }
    const unsigned cluster_blocks = launch.cluster[0] * launch.cluster[1] * launch.cluster[2];
    if (cluster_blocks > kMaxClusterBlocks) {
      fail("cluster",
           "has " + std::to_string(cluster_blocks) + " blocks; allowed are 1 to " + std::to_string(kMaxClusterBlocks));
    }
    for (int i = 0; i < 3; ++i) {
      if (launch.grid[i] % launch.cluster[i] != 0) {
        fail("grid", "dimension " + std::to_string(i) + " is " + std::to_string(launch.grid[i]) +
                         ", not a multiple of the cluster's " + std::to_string(launch.cluster[i]));
      }
    }
    const std::int64_t shared = value(spec.shared);
    if (shared < 0 || shared > bound_.scope().get("smem_per_block")) {
      fail("shared", "is " + std::to_string(shared) + " bytes; this device allows 0 to " +
                         std::to_string(bound_.scope().get("smem_per_block")));
    }
    launch.shared_bytes = static_cast<unsigned>(shared);
    launch.pdl = value(spec.pdl) != 0;
    for (const ArgSpec& arg : spec.args) add_argument(launch, arg);
    if (launch.arguments.size() > kMaxArgumentBytes || launch.argument_offsets.size() > kMaxArguments) {
      fail("args", "take " + std::to_string(launch.arguments.size()) + " bytes in " +
                       std::to_string(launch.argument_offsets.size()) + " parameters; allowed are " +
                       std::to_string(kMaxArgumentBytes) + " in " + std::to_string(kMaxArguments));
    }
    return launch;
  }

  // Where the next value of this size and alignment goes.
  static std::uint32_t reserve(std::vector<std::byte>& bytes, std::size_t size, std::size_t alignment) {
    const std::size_t offset = round_up(bytes.size(), alignment);
    bytes.resize(offset + size);
    return static_cast<std::uint32_t>(offset);
  }

  static std::size_t alignment_of(const ArgSpec& arg, const OpSpec& op) { return size_of_field(arg, op); }

  static std::size_t size_of_field(const ArgSpec& arg, const OpSpec& op) {
    switch (arg.kind) {
      case ArgSpec::Kind::value:
        return static_cast<std::size_t>(size_of(arg.type));
      case ArgSpec::Kind::scalar:
        for (const ScalarSpec& scalar : op.scalars) {
          if (scalar.name == arg.name) return static_cast<std::size_t>(size_of(scalar.type));
        }
        return 8;
      default:
        return sizeof(CUdeviceptr);
    }
  }

  void add_argument(PlannedLaunch& launch, const ArgSpec& arg) {
    if (arg.kind == ArgSpec::Kind::map) {
      const std::uint32_t offset = reserve(launch.arguments, sizeof(CUtensorMap), 64);
      launch.argument_offsets.push_back(offset);
      return add_map(launch, arg.name, offset);
    }
    if (arg.kind == ArgSpec::Kind::structure) {
      std::size_t alignment = 1;
      for (const ArgSpec& field : arg.fields) alignment = std::max(alignment, alignment_of(field, *t_.op));
      const std::uint32_t start = reserve(launch.arguments, 0, alignment);
      launch.argument_offsets.push_back(start);
      for (const ArgSpec& field : arg.fields) add_field(launch, field);
      reserve(launch.arguments, 0, alignment);  // a struct's size is a multiple of its alignment
      return;
    }
    const std::uint32_t start = reserve(launch.arguments, 0, alignment_of(arg, *t_.op));
    launch.argument_offsets.push_back(start);
    add_field(launch, arg);
  }

  void add_field(PlannedLaunch& launch, const ArgSpec& arg) {
    const std::size_t size = size_of_field(arg, *t_.op);
    const std::uint32_t offset = reserve(launch.arguments, size, size);
    switch (arg.kind) {
      case ArgSpec::Kind::value:
        return write_value(launch, arg, offset);
      case ArgSpec::Kind::pointer:
        launch.patches.push_back({Patch::Kind::pointer, operand_index(arg.name), offset, 0, 8});
        return;
      case ArgSpec::Kind::workspace:
        launch.patches.push_back({Patch::Kind::workspace, 0, offset, workspace_offset(arg.name), 8});
        return;
      case ArgSpec::Kind::scalar:
        launch.patches.push_back({Patch::Kind::scalar, scalar_index(arg.name), offset, 0, static_cast<int>(size)});
        return;
      case ArgSpec::Kind::map:
      case ArgSpec::Kind::structure:
        fail("args", "a tensor map or struct cannot stand inside a struct");
    }
  }

  void write_value(PlannedLaunch& launch, const ArgSpec& arg, std::uint32_t offset) {
    const std::int64_t number = value(*arg.value);
    const bool narrow = arg.type == ScalarType::i32 || arg.type == ScalarType::u32;
    const std::int64_t low = arg.type == ScalarType::i32 ? INT32_MIN : arg.type == ScalarType::i64 ? INT64_MIN : 0;
    const std::int64_t high = arg.type == ScalarType::i32   ? INT32_MAX
                              : arg.type == ScalarType::u32 ? std::int64_t{UINT32_MAX}
                                                            : INT64_MAX;
    if (number < low || number > high) {
      fail("args", "'" + arg.value->text() + "' is " + std::to_string(number) + ", which does not fit its type");
    }
    if (narrow) {
      const auto word = static_cast<std::uint32_t>(number);
      std::memcpy(launch.arguments.data() + offset, &word, sizeof(word));
    } else {
      std::memcpy(launch.arguments.data() + offset, &number, sizeof(number));
    }
  }

  void add_map(PlannedLaunch& launch, const std::string& name, std::uint32_t offset) {
    const auto it = std::find_if(t_.manifest.tensor_maps.begin(), t_.manifest.tensor_maps.end(),
                                 [&name](const TensorMapArg& map) { return map.name == name; });
    const TensorMapArg& map = *it;
    DType dtype = DType::f32;
    if (map.dtype)
      dtype = *map.dtype;
    else if (map.op_dtype)
      dtype = problem_.dtypes.at(*map.op_dtype);
    else
      dtype = problem_.dtypes.at(t_.op->find_operand(map.operand)->dtype);
    std::vector<std::uint64_t> dims;
    std::vector<std::uint64_t> strides;
    std::vector<std::uint32_t> box;
    for (const Expression& e : map.dims) dims.push_back(static_cast<std::uint64_t>(value(e)));
    for (const Expression& e : map.strides) strides.push_back(static_cast<std::uint64_t>(value(e) * size_of(dtype)));
    for (const Expression& e : map.box) box.push_back(static_cast<std::uint32_t>(value(e)));
    const cuda::TensorMapSpec spec{.dtype = dtype,
                                   .dims = dims,
                                   .strides_bytes = strides,
                                   .box = box,
                                   .swizzle_bytes = static_cast<int>(value(map.swizzle)),
                                   .l2_promotion_bytes = static_cast<int>(value(map.l2_promotion))};
    try {
      if (encode_ == EncodeMaps::yes) {
        alignas(128) CUtensorMap encoded;
        cuda::encode_tensor_map(&encoded, spec, kPlaceholderAddress);
        std::memcpy(launch.arguments.data() + offset, &encoded, sizeof(encoded));
      } else {
        cuda::check_tensor_map(spec);
      }
    } catch (const Error& error) {
      throw Error(error.code(), t_.manifest.name + ": tensor_map." + name + ": " + error.what());
    }
    if (map.workspace.empty()) {
      const int operand = operand_index(map.operand);
      auto& alignment = plan_.alignment[static_cast<std::size_t>(operand)];
      alignment = std::max(alignment, 16U);
      // Nothing is read through the map of an empty operand, whose pointer may be null: no address a map can hold.
      if (plan_.touched[static_cast<std::size_t>(operand)]) {
        launch.patches.push_back({Patch::Kind::map, operand, offset, 0, 8});
      }
    } else {
      launch.patches.push_back({Patch::Kind::map_workspace, 0, offset, workspace_offset(map.workspace), 8});
    }
  }

  int operand_index(const std::string& name) const {
    for (std::size_t i = 0; i < t_.op->operands.size(); ++i) {
      if (t_.op->operands[i].name == name) return static_cast<int>(i);
    }
    throw Error(ErrorCode::internal, "an unchecked operand name: " + name);
  }
  int scalar_index(const std::string& name) const {
    for (std::size_t i = 0; i < t_.op->scalars.size(); ++i) {
      if (t_.op->scalars[i].name == name) return static_cast<int>(i);
    }
    throw Error(ErrorCode::internal, "an unchecked scalar name: " + name);
  }
  std::uint64_t workspace_offset(const std::string& name) const {
    for (std::size_t i = 0; i < t_.manifest.workspaces.size(); ++i) {
      if (t_.manifest.workspaces[i].name == name) return workspace_offset_[i];
    }
    throw Error(ErrorCode::internal, "an unchecked workspace name: " + name);
  }

  const KernelTemplate& t_;
  const Problem problem_;  // in full
  EncodeMaps encode_;
  ConfigScope bound_;
  LaunchPlan plan_;
  std::vector<std::uint64_t> workspace_offset_;
  std::string path_;
};

void apply(const Patch& patch, std::byte* arguments, std::span<const CUdeviceptr> pointers,
           std::span<const ScalarValue> scalars, CUdeviceptr workspace) {
  std::byte* target = arguments + patch.offset;
  switch (patch.kind) {
    case Patch::Kind::pointer:
      std::memcpy(target, &pointers[static_cast<std::size_t>(patch.index)], sizeof(CUdeviceptr));
      return;
    case Patch::Kind::map:
      cuda::replace_address(reinterpret_cast<CUtensorMap*>(target), pointers[static_cast<std::size_t>(patch.index)]);
      return;
    case Patch::Kind::workspace: {
      const CUdeviceptr address = workspace + patch.addend;
      std::memcpy(target, &address, sizeof(address));
      return;
    }
    case Patch::Kind::map_workspace:
      cuda::replace_address(reinterpret_cast<CUtensorMap*>(target), workspace + patch.addend);
      return;
    case Patch::Kind::scalar:
      std::memcpy(target, &scalars[static_cast<std::size_t>(patch.index)], static_cast<std::size_t>(patch.bytes));
      return;
  }
}

void launch_one(const PlannedLaunch& launch, CUkernel kernel, std::span<const CUdeviceptr> pointers,
                std::span<const ScalarValue> scalars, CUdeviceptr workspace, CUstream stream) {
  // Copied per call, so that any number of threads can launch one plan.
  alignas(128) std::byte arguments[kMaxArgumentBytes];
  void* parameters[kMaxArguments];
  std::memcpy(arguments, launch.arguments.data(), launch.arguments.size());
  for (const Patch& patch : launch.patches) apply(patch, arguments, pointers, scalars, workspace);
  for (std::size_t i = 0; i < launch.argument_offsets.size(); ++i) {
    parameters[i] = arguments + launch.argument_offsets[i];
  }
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config{};
  config.gridDimX = launch.grid[0];
  config.gridDimY = launch.grid[1];
  config.gridDimZ = launch.grid[2];
  config.blockDimX = launch.block[0];
  config.blockDimY = launch.block[1];
  config.blockDimZ = launch.block[2];
  config.sharedMemBytes = launch.shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = launch.cluster[0];
    attribute.value.clusterDim.y = launch.cluster[1];
    attribute.value.clusterDim.z = launch.cluster[2];
  }
  if (launch.pdl) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  cuda::check(cuda::driver().cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel), parameters, nullptr),
              "cuLaunchKernelEx");
}

}  // namespace

LaunchPlan build_plan(const KernelTemplate& t, const std::vector<LaunchSpec>& launches, const Problem& problem,
                      const Config& config, const cuda::DeviceInfo& device, EncodeMaps encode) {
  return PlanBuilder(t, problem, config, device, encode).build(launches);
}

void allow_resources(const LaunchPlan& plan, std::span<const CUkernel> kernels, CUdevice device) {
  constexpr unsigned kPortableCluster = 8;
  for (const PlannedLaunch& launch : plan.launches) {
    const CUkernel kernel = kernels[launch.kernel_index];
    cuda::allow_dynamic_shared(kernel, static_cast<int>(launch.shared_bytes), device);
    if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > kPortableCluster) {
      cuda::allow_large_clusters(kernel, device);
    }
  }
}

void run(const LaunchPlan& plan, std::span<const CUkernel> kernels, std::span<const CUdeviceptr> pointers,
         std::span<const ScalarValue> scalars, CUdeviceptr workspace, CUstream stream) {
  for (const ZeroRange& range : plan.zero) {
    cuda::check(cuda::driver().cuMemsetD8Async(workspace + range.offset, 0, range.bytes, stream), "cuMemsetD8Async");
  }
  for (const PlannedLaunch& launch : plan.launches) {
    launch_one(launch, kernels[launch.kernel_index], pointers, scalars, workspace, stream);
  }
}

}  // namespace kiln
