// D = A · Bᵀ in fp32 through Kiln, checked against the same product on the host.
#include <cmath>
#include <cstdio>
#include <vector>

#include "device_memory.h"
#include "kiln/kiln.h"

int main() {
  constexpr int kM = 192;
  constexpr int kN = 256;
  constexpr int kK = 128;
  const example::Driver driver;

  std::vector<float> a(kM * kK);
  std::vector<float> b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  void* const a_device = driver.upload(a);
  void* const b_device = driver.upload(b);
  void* const d_device = driver.upload(std::vector<float>(kM * kN));

  kiln::Runtime runtime;
  const kiln::GemmOperation gemm =
      runtime.prepare(kiln::Gemm{.m = kM, .n = kN, .k = kK, .a = kiln::f32, .b = kiln::f32, .d = kiln::f32});
  gemm(nullptr, a_device, b_device, d_device);
  driver.synchronize();

  const std::vector<float> d = driver.download<float>(d_device, kM * kN);
  double worst = 0;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += static_cast<double>(a[m * kK + k]) * b[n * kK + k];
      worst = std::fmax(worst, std::fabs(sum - d[m * kN + n]));
    }
  }
  const kiln::Provenance answer = gemm.provenance();
  std::printf("%s %s (%s): largest difference %g\n", answer.template_name.c_str(), kiln::to_text(answer.config).c_str(),
              kiln::to_string(answer.rung), worst);
  return worst < 1e-3 ? 0 : 1;
}
