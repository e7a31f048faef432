#include "cuda/tensor_map.h"

#include <algorithm>
#include <array>
#include <string>

#include "cuda/driver.h"

namespace kiln::cuda {
namespace {

constexpr std::size_t kMaximumRank = 5;
constexpr std::uint64_t kMaximumDim = std::uint64_t{1} << 32;
constexpr std::uint64_t kStrideLimit = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaximumBox = 256;
constexpr std::uint64_t kAlignment = 16;

[[noreturn]] void refuse(const std::string& field, const std::string& met, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, "tensor map: " + field + " is " + met + "; " + allowed);
}

CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::tf32:
      return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounds to TF32 on the way to shared memory
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::i8:  // bytes are copied as they are, whatever they mean
    case DType::u8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::u32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DType::i64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
  }
  refuse("dtype", std::to_string(static_cast<int>(dtype)), "it must be one of " + std::string(dtype_names()));
}

CUtensorMapSwizzle swizzle(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      refuse("swizzle", std::to_string(bytes), "it must be 0, 32, 64 or 128 bytes");
  }
}

CUtensorMapL2promotion l2_promotion(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case 64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default:
      refuse("l2_promotion", std::to_string(bytes), "it must be 0, 64, 128 or 256 bytes");
  }
}

std::string element(const char* field, std::size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

// The driver answers all of this with one CUDA_ERROR_INVALID_VALUE. Source of the limits: CUDA Driver API, "Tensor Map
// Object Management".
void check_spec(const TensorMapSpec& spec) {
  const std::size_t rank = spec.dims.size();
  if (rank < 1 || rank > kMaximumRank) refuse("the number of dims", std::to_string(rank), "it must be 1 to 5");
  if (spec.strides_bytes.size() != rank - 1) {
    refuse("the number of strides", std::to_string(spec.strides_bytes.size()),
           "there must be one for every dim but the innermost, here " + std::to_string(rank - 1));
  }
  if (spec.box.size() != rank) {
    refuse("the number of box extents", std::to_string(spec.box.size()),
           "there must be one for every dim, here " + std::to_string(rank));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (spec.dims[i] < 1 || spec.dims[i] > kMaximumDim) {
      refuse(element("dims", i), std::to_string(spec.dims[i]), "it must be 1 to 2^32");
    }
    if (spec.box[i] < 1 || spec.box[i] > kMaximumBox) {
      refuse(element("box", i), std::to_string(spec.box[i]), "it must be 1 to 256");
    }
  }
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    if (spec.strides_bytes[i] % kAlignment != 0 || spec.strides_bytes[i] >= kStrideLimit) {
      refuse(element("strides_bytes", i), std::to_string(spec.strides_bytes[i]),
             "it must be a multiple of 16 below 2^40");
    }
  }
  const std::uint64_t inner_bytes = spec.box[0] * static_cast<std::uint64_t>(size_of(spec.dtype));
  if (inner_bytes % kAlignment != 0) {
    refuse("box[0]", std::to_string(spec.box[0]) + " elements of " + std::to_string(size_of(spec.dtype)) + " bytes",
           "its bytes must be a multiple of 16");
  }
  if (spec.swizzle_bytes > 0 && inner_bytes > static_cast<std::uint64_t>(spec.swizzle_bytes)) {
    refuse("box[0]", std::to_string(spec.box[0]) + " elements of " + std::to_string(size_of(spec.dtype)) + " bytes",
           "its bytes must not exceed the swizzle's " + std::to_string(spec.swizzle_bytes));
  }
}

void check_address(CUdeviceptr address) {
  if (address % kAlignment != 0) refuse("the address", std::to_string(address), "it must be a multiple of 16");
}

std::string describe_spec(const TensorMapSpec& spec) {
  std::string text = std::string(to_string(spec.dtype)) + " dims";
  for (const auto dim : spec.dims) text += " " + std::to_string(dim);
  text += ", strides in bytes";
  for (const auto stride : spec.strides_bytes) text += " " + std::to_string(stride);
  text += ", box";
  for (const auto extent : spec.box) text += " " + std::to_string(extent);
  return text + ", swizzle " + std::to_string(spec.swizzle_bytes) + ", L2 promotion " +
         std::to_string(spec.l2_promotion_bytes);
}

}  // namespace

void check_tensor_map(const TensorMapSpec& spec) {
  data_type(spec.dtype);
  swizzle(spec.swizzle_bytes);
  l2_promotion(spec.l2_promotion_bytes);
  check_spec(spec);
}

void encode_tensor_map(CUtensorMap* map, const TensorMapSpec& spec, CUdeviceptr address) {
  const CUtensorMapDataType type = data_type(spec.dtype);
  const CUtensorMapSwizzle swizzle_mode = swizzle(spec.swizzle_bytes);
  const CUtensorMapL2promotion promotion = l2_promotion(spec.l2_promotion_bytes);
  check_spec(spec);
  check_address(address);
  constexpr std::array<cuuint32_t, kMaximumRank> kUnitSteps{1, 1, 1, 1, 1};
  // Copied, since cuuint64_t may be another type of the same size than std::uint64_t.
  std::array<cuuint64_t, kMaximumRank> dims{};
  std::array<cuuint64_t, kMaximumRank> strides{};
  std::array<cuuint32_t, kMaximumRank> box{};
  std::copy(spec.dims.begin(), spec.dims.end(), dims.begin());
  std::copy(spec.strides_bytes.begin(), spec.strides_bytes.end(), strides.begin());
  std::copy(spec.box.begin(), spec.box.end(), box.begin());
  const CUresult result = driver().cuTensorMapEncodeTiled(map, type, static_cast<cuuint32_t>(spec.dims.size()),
                                                          reinterpret_cast<void*>(address), dims.data(), strides.data(),
                                                          box.data(), kUnitSteps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                                                          swizzle_mode, promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorCode::invalid_argument, "cuTensorMapEncodeTiled: " + describe(result) + "; " + describe_spec(spec),
              "cuTensorMapEncodeTiled", static_cast<int>(result));
}

void replace_address(CUtensorMap* map, CUdeviceptr address) {
  check_address(address);
  check(driver().cuTensorMapReplaceAddress(map, reinterpret_cast<void*>(address)), "cuTensorMapReplaceAddress");
}

}  // namespace kiln::cuda
