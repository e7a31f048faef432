// What tests of the tuner on a real GPU share. They skip themselves, saying so, on a machine without one.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/process.h"
#include "cuda/driver.h"
#include "runtime/memory_store.h"
#include "tuner/tuning.h"
#include "tuner/worker/gpu_lock.h"
#include "tuner/workshop.h"

namespace kiln::tuner {

// tests/templates: beside the program's folder where it was copied to a GPU machine, else in the source tree.
inline std::filesystem::path test_templates() {
  const std::filesystem::path carried = self_executable().parent_path().parent_path() / "tests" / "templates";
  return std::filesystem::exists(carried) ? carried : std::filesystem::path(KILN_TEST_TEMPLATES);
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::driver_available() && !cuda::list_devices().empty()) return;
    std::fprintf(stderr, "SKIPPED: this test needs a GPU\n");
    GTEST_SKIP() << "no GPU";
  }
};

// The real thing, but for the store, which is forgotten.
class GpuLab {
 public:
  explicit GpuLab(std::vector<std::filesystem::path> template_folders)
      : templates(template_folders),
        device(cuda::list_devices().at(0)),
        versions(current_versions()),
        lock(device.uuid, {.limit = std::chrono::minutes(2)}),
        compiler(find_helper({})),
        measurer(worker_options(std::move(template_folders))) {}

  TemplateSet templates;
  cuda::DeviceInfo device;
  Versions versions;
  MemoryStore store;
  GpuLock lock;
  PoolCompiler compiler;
  ProcessMeasurer measurer;
  TuneOptions options;
  TuneObserver observer;

  TuningParts parts() {
    return {.templates = &templates,
            .store = &store,
            .compiler = &compiler,
            .measurer = &measurer,
            .device = device,
            .versions = versions};
  }
  TuneResult tune(const Problem& problem) { return run_tuning(parts(), options, {problem}, observer).at(0); }

 private:
  WorkerOptions worker_options(std::vector<std::filesystem::path> folders) const {
    WorkerOptions worker;
    worker.helper = find_helper({});
    worker.gpu_uuid = device.uuid;
    worker.template_folders = std::move(folders);
    return worker;
  }
};

}  // namespace kiln::tuner
