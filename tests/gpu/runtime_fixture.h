// A runtime on the first GPU, as an application has it.
#pragma once

#include <memory>

#include "cuda/device.h"
#include "kiln/kiln.h"
#include "tests/gpu/gpu_lab.h"

namespace kiln::tuner {

class RuntimeFixture : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    context_ = std::make_unique<cuda::PrimaryContext>(0);
    scope_ = std::make_unique<cuda::ContextScope>(context_->get());
    runtime_ = std::make_unique<Runtime>(RuntimeOptions{});
    stream_ = cuda::make_stream();
  }
  void TearDown() override {
    stream_.reset();
    runtime_.reset();
    scope_.reset();
    context_.reset();
  }

  std::unique_ptr<cuda::PrimaryContext> context_;
  std::unique_ptr<cuda::ContextScope> scope_;
  std::unique_ptr<Runtime> runtime_;
  cuda::UniqueStream stream_;
};

}  // namespace kiln::tuner
