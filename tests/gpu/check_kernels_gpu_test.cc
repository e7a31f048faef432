// What the comparison of a result with its reference makes of infinities and NaN, on a real GPU.
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/gpu/gpu_lab.h"
#include "tests/gpu/random_cases.h"
#include "tuner/measure/check_kernels.h"

namespace kiln::tuner {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CheckKernelsGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<MeasuringDevice>(cuda::list_devices().at(0).uuid);
    const std::shared_ptr<const OpSpec> op = TemplateSet().find_op("gemm");
    const Problem problem = problem_from_text(*op, parse_problem_text("gemm", "m=8,n=8,k=8,dtype=f32"));
    CaseBuilder builds(*device_);
    const jit::CompileRequest request = check_kernels_request(*op, problem, device_->info());
    const auto built = builds.builder().get(request, "check kernels", [] { return false; });
    ASSERT_TRUE(built && std::holds_alternative<BuiltKernel>(*built));
    const KernelCode& code = std::get<BuiltKernel>(*built).code;
    std::map<std::string, std::string> symbols;
    for (std::size_t i = 0; i < request.name_expressions.size(); ++i) {
      symbols[request.name_expressions[i]] = code.symbols.at(i);
    }
    kernels_ = std::make_unique<CheckKernels>(code.cubin, symbols, device_->info().sm_count, device_->stream());
  }

  Comparison compare(const std::vector<float>& reference, const std::vector<float>& result) {
    const cuda::DeviceBuffer a = upload(reference);
    const cuda::DeviceBuffer b = upload(result);
    return kernels_->compare(f32, a.get(), f32, b.get(), static_cast<std::int64_t>(reference.size()));
  }

 private:
  static cuda::DeviceBuffer upload(const std::vector<float>& values) {
    cuda::DeviceBuffer buffer(values.size() * sizeof(float));
    cuda::check(cuda::driver().cuMemcpyHtoD(buffer.get(), values.data(), buffer.size()), "cuMemcpyHtoD");
    return buffer;
  }
  std::unique_ptr<MeasuringDevice> device_;
  std::unique_ptr<CheckKernels> kernels_;
};

TEST_F(CheckKernelsGpuTest, SmallEqualInfinitiesAreNoDifference) {
  const Comparison mixed = compare({-kInfinity, 3, kInfinity, 4}, {-kInfinity, 3, kInfinity, 4});
  EXPECT_EQ(mixed.nan_mismatch, 0U);
  EXPECT_EQ(mixed.relative_error(), 0);
  const Comparison alone = compare({-kInfinity, -kInfinity}, {-kInfinity, -kInfinity});
  EXPECT_EQ(alone.nan_mismatch, 0U);
  EXPECT_EQ(alone.relative_error(), 0);
  // The finite ones still count.
  EXPECT_FLOAT_EQ(static_cast<float>(compare({-kInfinity, 3, 4}, {-kInfinity, 3, 5}).relative_error()), 0.2F);
}

TEST_F(CheckKernelsGpuTest, SmallOtherInfinitiesAndLoneNansAreFaults) {
  for (const auto& [reference, result] : {std::pair{-kInfinity, kInfinity},
                                          {-kInfinity, -3e38F},
                                          {1.0F, kInfinity},
                                          {-kInfinity, kNan},
                                          {kNan, -kInfinity},
                                          {1.0F, kNan},
                                          {kNan, 1.0F}}) {
    const Comparison found = compare({1, reference}, {1, result});
    EXPECT_EQ(found.nan_mismatch, 1U) << reference << " against " << result;
    EXPECT_EQ(found.first_bad_index, 2U) << reference << " against " << result;
  }
  EXPECT_EQ(compare({1, kNan}, {1, kNan}).nan_mismatch, 0U);
}

}  // namespace
}  // namespace kiln::tuner
