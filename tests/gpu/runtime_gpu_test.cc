// The runtime as an application uses it, on a real GPU.
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "base/process.h"
#include "cuda/driver.h"
#include "cuda/memory.h"
#include "kiln/c_api.h"
#include "kiln/kiln.h"
#include "tests/gpu/host_bf16.h"
#include "tests/gpu/runtime_fixture.h"

namespace kiln {
namespace {

using testing::HasSubstr;

// A bf16 GEMM's operands on the device, and its truth on the host. A [m,k] and B [n,k] have K contiguous.
class Operands {
 public:
  Operands(int m, int n, int k, std::size_t offset_elements = 0)
      : m_(m),
        n_(n),
        k_(k),
        offset_(offset_elements * sizeof(std::uint16_t)),
        a_(random(m * k, 1)),
        b_(random(n * k, 2)),
        a_device_(bytes(a_.size())),
        b_device_(bytes(b_.size())),
        d_device_(bytes(static_cast<std::size_t>(m) * n)) {
    upload(a_device_, a_);
    upload(b_device_, b_);
    clear();
  }

  void* a() const { return at(a_device_); }
  void* b() const { return at(b_device_); }
  void* d() const { return at(d_device_); }
  // NaN everywhere.
  void clear() { cuda::check(cuda::driver().cuMemsetD8(d_device_.get(), 0xff, d_device_.size()), "cuMemsetD8"); }

  double a_at(int row, int l) const { return double{from_bf16(a_[index(row, l)])}; }
  double b_at(int column, int l) const { return double{from_bf16(b_[index(column, l)])}; }

  // What becomes of the product at (row, column).
  using Epilogue = std::function<double(int row, int column, double product)>;
  // The largest difference from the truth over the first `rows` rows, relative to the largest value.
  double error(
      int rows, const Epilogue& epilogue = [](int, int, double product) { return product; }) const {
    cuda::check(cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
    std::vector<std::uint16_t> d(static_cast<std::size_t>(m_) * static_cast<std::size_t>(n_));
    cuda::check(cuda::driver().cuMemcpyDtoH(d.data(), d_device_.get() + offset_, d.size() * 2), "cuMemcpyDtoH");
    double worst = 0;
    double largest = 0;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < n_; ++j) {
        double truth = 0;
        for (int l = 0; l < k_; ++l) truth += a_at(i, l) * b_at(j, l);
        truth = epilogue(i, j, truth);
        const double difference = std::abs(truth - double{from_bf16(d[static_cast<std::size_t>(i) * n_ + j])});
        worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
        largest = std::max(largest, std::abs(truth));
      }
    }
    return worst / largest;
  }

 private:
  std::size_t index(int row, int l) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(k_) + static_cast<std::size_t>(l);
  }
  std::size_t bytes(std::size_t elements) const { return elements * 2 + offset_; }
  void* at(const cuda::DeviceBuffer& buffer) const { return reinterpret_cast<void*>(buffer.get() + offset_); }
  static std::vector<std::uint16_t> random(int count, unsigned seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (auto& value : values) value = to_bf16(normal(generator));
    return values;
  }
  void upload(const cuda::DeviceBuffer& buffer, const std::vector<std::uint16_t>& values) const {
    cuda::check(cuda::driver().cuMemcpyHtoD(buffer.get() + offset_, values.data(), values.size() * 2), "cuMemcpyHtoD");
  }

  int m_, n_, k_;
  std::size_t offset_;
  std::vector<std::uint16_t> a_, b_;
  cuda::DeviceBuffer a_device_, b_device_, d_device_;
};

class RuntimeGpuTest : public tuner::RuntimeFixture {
 protected:
  static constexpr double kTolerance = 1e-2;  // bf16 results, the largest difference over the largest value
};

TEST_F(RuntimeGpuTest, AnEpilogueTakesBiasAndResidual) {
  // A has D's shape and a row of B the length of the bias, so they serve as C and bias too.
  Operands operands(64, 72, 72);
  Gemm gemm{.m = 64, .n = 72, .k = 72, .addend = Addend::residual, .bias = Bias::n, .activation = Activation::relu};
  const auto fused = runtime_->prepare(gemm);
  fused(stream_.get(),
        {.a = operands.a(), .b = operands.b(), .d = operands.d(), .c = operands.a(), .bias = operands.b()});
  EXPECT_LT(operands.error(64,
                           [&](int row, int column, double product) {
                             return std::max(0.0, product + operands.b_at(0, column)) + operands.a_at(row, column);
                           }),
            kTolerance);

  gemm.addend = Addend::c;
  gemm.m = up_to(64);
  operands.clear();
  runtime_->prepare(gemm)(stream_.get(), 40,
                          {.a = operands.a(),
                           .b = operands.b(),
                           .d = operands.d(),
                           .c = operands.a(),
                           .bias = operands.b(),
                           .alpha = 0.5F,
                           .beta = -2.0F});
  EXPECT_LT(operands.error(40,
                           [&](int row, int column, double product) {
                             return std::max(0.0,
                                             0.5 * product - 2 * operands.a_at(row, column) + operands.b_at(0, column));
                           }),
            kTolerance);
}

TEST_F(RuntimeGpuTest, APointerThatAnEpilogueNeedsMustNotBeNull) {
  const Operands operands(64, 64, 64);
  const auto biased = runtime_->prepare(Gemm{.m = 64, .n = 64, .k = 64, .bias = Bias::n});
  try {
    biased(stream_.get(), operands.a(), operands.b(), operands.d());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("the pointer to bias is null"));
  }
}

TEST_F(RuntimeGpuTest, APreparedGemmIsRightFromManyThreads) {
  const auto gemm = runtime_->prepare(Gemm{.m = 200, .n = 136, .k = 72});
  std::vector<std::thread> threads;
  std::array<double, 4> errors{};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      const cuda::ContextScope scope(context_->get());
      Operands operands(200, 136, 72);
      const cuda::UniqueStream stream = cuda::make_stream();
      for (int repeat = 0; repeat < 20; ++repeat) gemm(stream.get(), operands.a(), operands.b(), operands.d());
      errors[i] = operands.error(200);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const double error : errors) EXPECT_LT(error, kTolerance);
}

TEST_F(RuntimeGpuTest, TheCInterfaceDoesTheSame) {
  kiln_runtime* runtime = nullptr;
  ASSERT_EQ(kiln_runtime_create(-1, "", &runtime), KILN_OK) << kiln_last_error();
  kiln_operation* gemm = nullptr;
  ASSERT_EQ(kiln_prepare(runtime, "gemm", "m=200,n=136,k=72,dtype=bf16", &gemm), KILN_OK) << kiln_last_error();
  Operands operands(200, 136, 72);
  const std::array<void*, 3> pointers{operands.a(), operands.b(), operands.d()};
  const std::array<double, 2> scalars{2.0, 0.0};
  ASSERT_EQ(kiln_launch(gemm, stream_.get(), pointers.data(), 3, scalars.data(), 2, nullptr), KILN_OK)
      << kiln_last_error();
  EXPECT_LT(operands.error(200, [](int, int, double product) { return 2 * product; }), kTolerance);
  EXPECT_EQ(kiln_launch(gemm, stream_.get(), pointers.data(), 2, nullptr, 0, nullptr), KILN_INVALID_ARGUMENT);
  EXPECT_THAT(kiln_last_error(), HasSubstr("takes"));
  std::array<char, 10> text{};
  std::size_t length = 0;
  EXPECT_EQ(kiln_operation_describe(gemm, 0, text.data(), text.size(), &length), KILN_OK);
  EXPECT_EQ(std::string(text.data()).size(), text.size() - 1);
  EXPECT_GT(length, text.size());
  kiln_operation_destroy(gemm);

  kiln_operation* range = nullptr;
  ASSERT_EQ(kiln_prepare_up_to(runtime, "gemm", "m=300,n=136,k=72,dtype=bf16", "M", &range), KILN_OK);
  operands.clear();
  ASSERT_EQ(kiln_launch_at(range, stream_.get(), 17, pointers.data(), 3, nullptr, 0, nullptr), KILN_OK);
  EXPECT_LT(operands.error(17), kTolerance);
  std::size_t bytes = 1;
  EXPECT_EQ(kiln_operation_workspace(range, &bytes), KILN_OK);
  kiln_operation_destroy(range);

  EXPECT_EQ(kiln_prepare(runtime, "gemm", "m=1,q=2", &gemm), KILN_INVALID_ARGUMENT);
  EXPECT_EQ(kiln_prepare(runtime, "gem", "m=1", &gemm), KILN_NOT_FOUND);
  kiln_runtime_destroy(runtime);
}

TEST_F(RuntimeGpuTest, ARangeOfRowsIsServedByOneOperation) {
  const auto gemm = runtime_->prepare(Gemm{.m = up_to(300), .n = 128, .k = 64});
  Operands operands(300, 128, 64);
  for (const int m : {300, 1, 2, 17, 64, 65, 128, 255, 299}) {
    operands.clear();
    gemm(stream_.get(), m, operands.a(), operands.b(), operands.d());
    EXPECT_LT(operands.error(m), kTolerance) << "m = " << m;
  }
  gemm(stream_.get(), 0, nullptr, nullptr, nullptr);
  EXPECT_THROW(gemm(stream_.get(), 301, operands.a(), operands.b(), operands.d()), Error);
  EXPECT_THROW(gemm(stream_.get(), -1, operands.a(), operands.b(), operands.d()), Error);
  EXPECT_THROW(gemm(stream_.get(), operands.a(), operands.b(), operands.d()), Error);
}

TEST_F(RuntimeGpuTest, MisalignedPointersFallToATemplateThatAcceptsThem) {
  const auto gemm = runtime_->prepare(Gemm{.m = 96, .n = 64, .k = 48});
  Operands operands(96, 64, 48, 1);
  gemm(stream_.get(), operands.a(), operands.b(), operands.d());
  EXPECT_LT(operands.error(96), kTolerance);
}

TEST_F(RuntimeGpuTest, AColumnMajorResultIsTheTransposedProblem) {
  // D column-major [m,n] is D' row-major [n,m] = B' · A', and both operands are stored with K contiguous.
  const auto gemm = runtime_->prepare(Gemm{.m = 40, .n = 56, .k = 64, .d_layout = Layout::col});
  Operands operands(56, 40, 64);
  gemm(stream_.get(), operands.b(), operands.a(), operands.d());
  EXPECT_LT(operands.error(56), kTolerance);
}

TEST_F(RuntimeGpuTest, NullPointersAreRefusedUnlessTheirMatrixIsEmpty) {
  const auto gemm = runtime_->prepare(Gemm{.m = 32, .n = 32, .k = 32});
  Operands operands(32, 32, 32);
  try {
    gemm(stream_.get(), nullptr, operands.b(), operands.d());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("pointer to a is null"));
  }
  const auto empty = runtime_->prepare(Gemm{.m = 0, .n = 32, .k = 32});
  EXPECT_NO_THROW(empty(stream_.get(), nullptr, operands.b(), nullptr));
}

TEST_F(RuntimeGpuTest, NoKMeansBetaTimesD) {
  const auto gemm = runtime_->prepare(Gemm{.m = 8, .n = 8, .k = 0, .a = f32, .b = f32, .d = f32});
  std::vector<float> values(64, 3.0F);
  const cuda::DeviceBuffer d(256);
  cuda::check(cuda::driver().cuMemcpyHtoD(d.get(), values.data(), 256), "cuMemcpyHtoD");
  gemm(stream_.get(), nullptr, nullptr, reinterpret_cast<void*>(d.get()), 1.0F, 0.5F);
  cuda::check(cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
  cuda::check(cuda::driver().cuMemcpyDtoH(values.data(), d.get(), 256), "cuMemcpyDtoH");
  EXPECT_THAT(values, testing::Each(1.5F));
}

TEST_F(RuntimeGpuTest, APreparedCallCanBeCapturedAndAnUnpreparedOneSaysWhyNot) {
  const auto gemm = runtime_->prepare(Gemm{.m = 64, .n = 64, .k = 64});
  Operands operands(64, 64, 64);
  gemm.reserve(stream_.get());
  const auto& driver = cuda::driver();
  cuda::check(driver.cuStreamBeginCapture(stream_.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  gemm(stream_.get(), operands.a(), operands.b(), operands.d());
  EXPECT_THROW(runtime_->gemm(stream_.get(), Gemm{.m = 48, .n = 64, .k = 64}, operands.a(), operands.b(), operands.d()),
               Error);
  CUgraph graph = nullptr;
  cuda::check(driver.cuStreamEndCapture(stream_.get(), &graph), "cuStreamEndCapture");
  CUgraphExec exec = nullptr;
  cuda::check(driver.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  cuda::check(driver.cuGraphLaunch(exec, stream_.get()), "cuGraphLaunch");
  EXPECT_LT(operands.error(64), kTolerance);
  driver.cuGraphExecDestroy(exec);
  driver.cuGraphDestroy(graph);
}

TEST_F(RuntimeGpuTest, AnUnpreparedCallRemembersWhatItPrepared) {
  Operands operands(33, 64, 64);
  for (int repeat = 0; repeat < 3; ++repeat) {
    operands.clear();
    runtime_->gemm(stream_.get(), Gemm{.m = 33, .n = 64, .k = 64}, operands.a(), operands.b(), operands.d());
    EXPECT_LT(operands.error(33), kTolerance);
  }
}

// The helper's line: what it launched, and whether NVRTC is in the process.
std::string run_warm_start(const std::filesystem::path& cache) {
  const std::filesystem::path program = self_executable().parent_path() / "warm_start";
  Process process({.executable = program, .arguments = {cache.string()}, .environment = {}, .stderr_file = {}});
  Json answer;
  if (process.channel().receive(&answer, std::chrono::seconds(60)) != Channel::Status::message) return "no answer";
  return answer.at("nvrtc").get<bool>() ? "compiled" : "no NVRTC";
}

TEST_F(RuntimeGpuTest, AWarmCacheNeedsNoNvrtc) {
  const auto folder = std::filesystem::temp_directory_path() / ("kiln_warm_" + std::to_string(::getpid()));
  EXPECT_EQ(run_warm_start(folder / "kiln.db"), "compiled");
  EXPECT_EQ(run_warm_start(folder / "kiln.db"), "no NVRTC");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kiln
