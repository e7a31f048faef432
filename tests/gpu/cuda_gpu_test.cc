// The cuda and jit layers on a real GPU. Without one every test skips itself and says so on stderr.
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/device.h"
#include "cuda/driver.h"
#include "cuda/library.h"
#include "cuda/memory.h"
#include "cuda/nvml.h"
#include "cuda/tensor_map.h"
#include "jit/compile.h"

namespace kiln::cuda {
namespace {

constexpr const char* kAxpy = R"(
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reverse(int* x, int n) {
  extern __shared__ int row[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) row[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = row[n - 1 - i];
}
)";

class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!driver_available() || list_devices().empty()) {
      std::fprintf(stderr, "SKIPPED: %s needs a GPU\n", testing::UnitTest::GetInstance()->current_test_info()->name());
      GTEST_SKIP() << "no GPU";
    }
    context_ = std::make_unique<PrimaryContext>(0);
    scope_ = std::make_unique<ContextScope>(context_->get());
  }

  static std::string compile_for_this_gpu() {
    jit::CompileRequest request;
    request.source = kAxpy;
    request.name_expressions = {"axpy", "reverse"};
    request.arch = device_info(0).arch();
    const jit::CompileOutcome outcome = jit::compile(request);
    if (const auto* failure = std::get_if<jit::CompileFailure>(&outcome)) {
      ADD_FAILURE() << failure->log;
      return {};
    }
    return std::get<jit::CompiledUnit>(outcome).cubin;
  }

  static void launch(CUkernel kernel, unsigned grid, unsigned block, unsigned shared_bytes, CUstream stream,
                     void** arguments) {
    CUfunction function = nullptr;
    check(driver().cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
    CUlaunchConfig config{};
    config.gridDimX = grid;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = block;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared_bytes;
    config.hStream = stream;
    check(driver().cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx");
  }

  std::unique_ptr<PrimaryContext> context_;
  std::unique_ptr<ContextScope> scope_;
};

TEST_F(CudaGpu, DescribesItsDevices) {
  const std::vector<DeviceInfo> devices = list_devices();
  ASSERT_FALSE(devices.empty());
  for (const DeviceInfo& device : devices) {
    std::fprintf(stderr, "%s %s: %s\n", device.name.c_str(), device.uuid.c_str(), hardware_class(device).c_str());
    EXPECT_FALSE(device.name.empty());
    EXPECT_EQ(device.uuid.size(), 40U);
    EXPECT_GT(device.sm_count, 0);
    EXPECT_GT(device.memory_bytes, 0);
    EXPECT_GT(device.l2_bytes, 0);
    EXPECT_GE(device.smem_per_block, 48 * 1024);
    EXPECT_GT(device.dram_gbps(), 0);
    EXPECT_GT(device.clock_mhz, 0);
  }
}

TEST_F(CudaGpu, NvmlKnowsTheSameDevice) {
  const std::string uuid = device_info(0).uuid;
  const auto sample = nvml::sample(uuid);
  if (!sample) GTEST_SKIP() << "no NVML here";
  EXPECT_GT(sample->sm_clock_mhz, 0);
  EXPECT_GT(nvml::max_sm_clock_mhz(uuid).value_or(0), 0);
}

TEST_F(CudaGpu, LaunchesACompiledKernel) {
  const Library library(compile_for_this_gpu());
  const UniqueStream stream = make_stream();
  constexpr int kCount = 1003;
  std::vector<float> x(kCount, 2.0F);
  std::vector<float> y(kCount);
  for (int i = 0; i < kCount; ++i) y[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const std::size_t bytes = kCount * sizeof(float);
  const DeviceBuffer device_x(bytes);
  const DeviceBuffer device_y(bytes);
  check(driver().cuMemcpyHtoDAsync(device_x.get(), x.data(), bytes, stream.get()), "cuMemcpyHtoDAsync");
  check(driver().cuMemcpyHtoDAsync(device_y.get(), y.data(), bytes, stream.get()), "cuMemcpyHtoDAsync");

  CUdeviceptr y_pointer = device_y.get();
  CUdeviceptr x_pointer = device_x.get();
  float a = 0.5F;
  int n = kCount;
  std::array<void*, 4> arguments{&y_pointer, &x_pointer, &a, &n};
  const UniqueEvent start = make_event();
  const UniqueEvent stop = make_event();
  check(driver().cuEventRecord(start.get(), stream.get()), "cuEventRecord");
  launch(library.kernel("axpy"), (kCount + 127) / 128, 128, 0, stream.get(), arguments.data());
  check(driver().cuEventRecord(stop.get(), stream.get()), "cuEventRecord");
  check(driver().cuMemcpyDtoHAsync(y.data(), device_y.get(), bytes, stream.get()), "cuMemcpyDtoHAsync");
  check(driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(y[static_cast<std::size_t>(i)], static_cast<float>(i) + 1.0F);
  EXPECT_GT(elapsed_ms(start, stop), 0);
}

TEST_F(CudaGpu, UsesDynamicSharedMemoryBeyondTheDefaultLimit) {
  const Library library(compile_for_this_gpu());
  const DeviceInfo device = device_info(0);
  const int n = device.smem_per_block / 4;
  std::vector<int> values(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = i;
  const std::size_t bytes = values.size() * sizeof(int);
  const DeviceBuffer buffer(bytes);
  check(driver().cuMemcpyHtoD(buffer.get(), values.data(), bytes), "cuMemcpyHtoD");
  const UniqueStream stream = make_stream();
  const CUkernel kernel = library.kernel("reverse");
  allow_dynamic_shared(kernel, static_cast<int>(bytes), context_->device());
  CUdeviceptr pointer = buffer.get();
  int count = n;
  std::array<void*, 2> arguments{&pointer, &count};
  launch(kernel, 1, 256, static_cast<unsigned>(bytes), stream.get(), arguments.data());
  check(driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
  check(driver().cuMemcpyDtoH(values.data(), buffer.get(), bytes), "cuMemcpyDtoH");
  for (int i = 0; i < n; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], n - 1 - i);
}

TEST_F(CudaGpu, AMissingKernelIsNamed) {
  const Library library(compile_for_this_gpu());
  try {
    library.kernel("absent");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("'absent'"), std::string::npos);
  }
}

TEST_F(CudaGpu, ACubinForAnotherGpuIsExplained) {
  jit::CompileRequest request;
  request.source = kAxpy;
  request.name_expressions = {"axpy"};
  request.arch = device_info(0).cc_major == 12 ? "sm_90a" : "sm_120";
  const jit::CompileOutcome outcome = jit::compile(request);
  ASSERT_TRUE(std::holds_alternative<jit::CompiledUnit>(outcome));
  try {
    const Library library(std::get<jit::CompiledUnit>(outcome).cubin);
    // A driver that loads lazily refuses at the first look.
    CUfunction function = nullptr;
    check(driver().cuKernelGetFunction(&function, library.kernel("axpy")), "cuKernelGetFunction");
    FAIL() << "it loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::launch_failed) << error.what();
    std::fprintf(stderr, "%s\n", error.what());
  }
}

TEST_F(CudaGpu, GarbageIsNoLibrary) {
  EXPECT_THROW(Library(""), Error);
  EXPECT_THROW(Library("garbage"), Error);
  const std::string cubin = compile_for_this_gpu();
  EXPECT_THROW(Library(cubin.substr(0, cubin.size() / 2)), Error);
}

TEST_F(CudaGpu, TooLargeAnAllocationIsOutOfMemory) {
  try {
    const DeviceBuffer buffer(std::size_t{1} << 46);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
  }
  EXPECT_EQ(DeviceBuffer(0).get(), 0U);
}

TEST_F(CudaGpu, TensorMapsAreEncodedAndMoved) {
  if (device_info(0).cc() < 90) GTEST_SKIP() << "tensor maps need compute capability 9.0";
  const DeviceBuffer buffer(std::size_t{256} * 256 * 2);
  const std::array<std::uint64_t, 2> dims{256, 256};
  const std::array<std::uint64_t, 1> strides{512};
  const std::array<std::uint32_t, 2> box{64, 128};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    CUtensorMap map;
    encode_tensor_map(&map,
                      {.dtype = dtype,
                       .dims = dims,
                       .strides_bytes = strides,
                       .box = box,
                       .swizzle_bytes = 128,
                       .l2_promotion_bytes = 256},
                      buffer.get());
    EXPECT_NO_THROW(replace_address(&map, buffer.get() + 1024));
  }
}

}  // namespace
}  // namespace kiln::cuda
