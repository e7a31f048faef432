// Prepares and launches one GEMM with the cache named by the argument, and says on the channel whether NVRTC was
// loaded.
#include "base/process.h"
#include "cuda/driver.h"
#include "cuda/memory.h"
#include "kiln/kiln.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  kiln::RuntimeOptions options;
  options.cache = argv[1];
  const kiln::cuda::PrimaryContext context(0);
  const kiln::cuda::ContextScope scope(context.get());
  kiln::Runtime runtime(options);
  const auto gemm = runtime.prepare(kiln::Gemm{.m = 64, .n = 64, .k = 64});
  const kiln::cuda::DeviceBuffer memory(3 * 64 * 64 * 2);
  void* base = reinterpret_cast<void*>(memory.get());
  gemm(nullptr, base, base, reinterpret_cast<void*>(memory.get() + 2 * 64 * 64 * 2));
  kiln::cuda::check(kiln::cuda::driver().cuCtxSynchronize(), "cuCtxSynchronize");
  kiln::Channel channel(kiln::kChannelFd);
  return channel.send({{"nvrtc", kiln::Runtime::nvrtc_loaded()}}) ? 0 : 1;
}
