// A kernel of one's own, in two files: rmsnorm.cuh and rmsnorm.toml. Nothing of Kiln is changed to add it. On the
// command line: `kiln template check rmsnorm.toml`, then with KILN_TEMPLATES naming this folder `kiln tune --op rmsnorm
// --problem rows=4096,cols=8192,dtype=bf16` and `kiln query` with the same arguments.
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "device_memory.h"
#include "kiln/kiln.h"

int main() {
  constexpr int kRows = 300;
  constexpr int kCols = 1000;
  constexpr double kEps = 1e-5;
  const example::Driver driver;

  std::vector<float> x(kRows * kCols);
  std::vector<float> w(kCols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 1 + static_cast<float>(i % 3);
  const std::array<void*, 3> pointers = {driver.upload(x), driver.upload(w),
                                         driver.upload(std::vector<float>(x.size()))};

  kiln::Runtime runtime;
  const kiln::Kernel kernel = runtime.load(RMSNORM_MANIFEST);
  kiln::Problem problem;
  problem.op = kernel.op();
  problem.dims = {{"rows", kRows}, {"cols", kCols}};
  problem.dtypes = {{"x", kiln::f32}};
  const kiln::Operation rmsnorm = runtime.prepare(kernel, problem);
  rmsnorm(nullptr, pointers, std::array{kEps});
  driver.synchronize();

  const std::vector<float> y = driver.download<float>(pointers[2], x.size());
  double worst = 0;
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int c = 0; c < kCols; ++c) sum += static_cast<double>(x[row * kCols + c]) * x[row * kCols + c];
    const double scale = 1 / std::sqrt(sum / kCols + kEps);
    for (int c = 0; c < kCols; ++c) {
      worst = std::fmax(worst, std::fabs(x[row * kCols + c] * scale * w[c] - y[row * kCols + c]));
    }
  }
  std::printf("%s (%s): largest difference %g\n", kernel.name().c_str(), kiln::to_string(rmsnorm.provenance().rung),
              worst);
  return worst < 1e-4 ? 0 : 1;
}
