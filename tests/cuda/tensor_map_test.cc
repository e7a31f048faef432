#include "cuda/tensor_map.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/driver.h"

namespace kiln::cuda {
namespace {

// A legal map of a row-major 4096 × 8192 bf16 matrix, for tests to spoil.
struct Draft {
  DType dtype = DType::bf16;
  std::vector<std::uint64_t> dims{8192, 4096};
  std::vector<std::uint64_t> strides{8192 * 2};
  std::vector<std::uint32_t> box{64, 128};
  int swizzle = 128;
  int promotion = 256;
  CUdeviceptr address = 0x7f0000000000;

  void encode() const {
    CUtensorMap map;
    encode_tensor_map(&map,
                      {.dtype = dtype,
                       .dims = dims,
                       .strides_bytes = strides,
                       .box = box,
                       .swizzle_bytes = swizzle,
                       .l2_promotion_bytes = promotion},
                      address);
  }
};

void expect_refused(const std::function<void(Draft&)>& spoil, const std::string& field, const std::string& value) {
  Draft draft;
  spoil(draft);
  try {
    draft.encode();
    FAIL() << field << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(value), std::string::npos) << error.what();
  }
}

TEST(TensorMap, RefusesTheWrongNumberOfDims) {
  expect_refused([](Draft& d) { d.dims.clear(); }, "number of dims", "0");
  expect_refused([](Draft& d) { d.dims.assign(6, 16); }, "number of dims", "6");
}

TEST(TensorMap, RefusesStridesAndBoxesThatDoNotFitTheRank) {
  expect_refused([](Draft& d) { d.strides.clear(); }, "number of strides", "0");
  expect_refused([](Draft& d) { d.box.pop_back(); }, "number of box extents", "1");
}

TEST(TensorMap, RefusesDimsOutOfRange) {
  expect_refused([](Draft& d) { d.dims[1] = 0; }, "dims[1]", "0");
  expect_refused([](Draft& d) { d.dims[0] = (std::uint64_t{1} << 32) + 1; }, "dims[0]", "4294967297");
}

TEST(TensorMap, RefusesUnalignedOrHugeStrides) {
  expect_refused([](Draft& d) { d.strides[0] = 8193 * 2; }, "strides_bytes[0]", "16386");
  expect_refused([](Draft& d) { d.strides[0] = std::uint64_t{1} << 40; }, "strides_bytes[0]", "2^40");
}

TEST(TensorMap, RefusesBoxesOutOfRange) {
  expect_refused([](Draft& d) { d.box[1] = 0; }, "box[1]", "0");
  expect_refused([](Draft& d) { d.box[1] = 257; }, "box[1]", "257");
}

TEST(TensorMap, RefusesAnInnerBoxThatIsNoMultipleOfSixteenBytes) {
  expect_refused([](Draft& d) { d.box[0] = 12; }, "box[0]", "12 elements of 2 bytes");
}

TEST(TensorMap, RefusesAnInnerBoxWiderThanTheSwizzle) {
  expect_refused([](Draft& d) { d.swizzle = 64; }, "box[0]", "64");
}

TEST(TensorMap, RefusesUnknownSwizzlesAndPromotions) {
  expect_refused([](Draft& d) { d.swizzle = 16; }, "swizzle", "16");
  expect_refused([](Draft& d) { d.promotion = 32; }, "l2_promotion", "32");
}

TEST(TensorMap, RefusesAnUnalignedAddress) {
  expect_refused([](Draft& d) { d.address += 8; }, "address", "multiple of 16");
  CUtensorMap map{};
  EXPECT_THROW(replace_address(&map, 8), Error);
}

TEST(TensorMap, ALegalMapGetsAsFarAsTheDriver) {
  if (driver_available()) {
    EXPECT_NO_THROW(Draft().encode());
    return;
  }
  try {
    Draft().encode();
    FAIL() << "encoded without a driver";
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::invalid_argument) << error.what();
  }
}

}  // namespace
}  // namespace kiln::cuda
