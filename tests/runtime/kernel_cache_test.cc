#include "runtime/kernel_cache.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "jit/nvrtc.h"
#include "kernel/kernel_key.h"
#include "runtime/memory_store.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Lets a test see and end each load, which begins by asking the store.
class WatchedStore : public MemoryStore {
 public:
  std::function<void()> at_load = [] {};
  std::atomic<int> loads{0};
  std::atomic<int> at_once{0};
  std::atomic<int> most_at_once{0};

  std::optional<StoredCubin> find_cubin(const std::string& key) override {
    ++loads;
    const int now = ++at_once;
    for (int most = most_at_once; now > most && !most_at_once.compare_exchange_weak(most, now);) continue;
    try {
      at_load();
    } catch (...) {
      --at_once;
      throw;
    }
    --at_once;
    return MemoryStore::find_cubin(key);
  }
};

class KernelCacheTest : public testing::Test {
 protected:
  KernelCacheTest() {
    t = ManifestDraft{}.build();
    store.put_fact("nvrtc", "13.0");
  }
  void get(std::int64_t value) { cache.get(*t, problem, {{"T", value}}); }

  std::shared_ptr<KernelTemplate> t;
  Problem problem = mix_problem(64, 64);
  WatchedStore store;
  KernelCache cache{store, sample_device()};
};

TEST_F(KernelCacheTest, OneKernelIsNeverLoadedTwiceAtOnce) {
  store.at_load = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw Error(ErrorCode::compile_failed, "as told");
  };
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        try {
          get(64);
        } catch (const Error&) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.most_at_once, 1);
  EXPECT_EQ(failures, 12);
}

TEST_F(KernelCacheTest, DifferentKernelsDoNotWaitForEachOther) {
  std::mutex mutex;
  std::condition_variable arrived;
  int here = 0;
  bool both = false;
  store.at_load = [&] {
    std::unique_lock lock(mutex);
    both = ++here == 2 || both;
    arrived.notify_all();
    // The time ends a wait that would otherwise be for ever, were loads to queue.
    arrived.wait_for(lock, std::chrono::seconds(20), [&] { return both; });
    throw Error(ErrorCode::compile_failed, "as told");
  };
  std::vector<std::thread> threads;
  for (const std::int64_t value : {64, 128}) {
    threads.emplace_back([this, value] { EXPECT_THROW(get(value), Error); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.most_at_once, 2);
}

TEST_F(KernelCacheTest, AFailureIsNotRemembered) {
  store.at_load = [] { throw Error(ErrorCode::compile_failed, "as told"); };
  EXPECT_THROW(get(64), Error);
  EXPECT_THROW(get(64), Error);
  EXPECT_EQ(store.loads, 2);
}

TEST_F(KernelCacheTest, AnUnknownComponentOfTheKeyNeverReachesTheStore) {
  KernelCache elsewhere(store, [] {
    cuda::DeviceInfo device = sample_device();
    device.cc_major = 3;
    return device;
  }());
  EXPECT_THAT(message_of(ErrorCode::internal,
                         [&] {
                           elsewhere.get(*t, problem, {{"T", 64}});
                         }),
              HasSubstr("kernel key"));
  EXPECT_EQ(store.loads, 0);
}

class KernelCacheWithNvrtc : public KernelCacheTest {
 protected:
  void SetUp() override {
    try {
      version = jit::Nvrtc::instance().version();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void set_source(const std::string& body) {
    t->headers = {
        {"ptx/types.cuh", "namespace kiln { struct bf16 { short bits; }; }\n"},
        {"mix.cuh", "namespace kiln { template <class C> __global__ void mix(const void*, void*) " + body + " }\n"}};
  }

  std::string version;
};

TEST_F(KernelCacheWithNvrtc, AKernelThatDoesNotCompileIsReportedWithItsConfigurationAndTheLog) {
  set_source("{ this_is_wrong(); }");
  EXPECT_THAT(message_of(ErrorCode::compile_failed, [&] { get(64); }),
              AllOf(HasSubstr("template mix_fast with T=64 does not compile"), HasSubstr("this_is_wrong")));
}

TEST_F(KernelCacheWithNvrtc, WhatWasCompiledIsStoredBeforeItIsLoaded) {
  set_source("{}");
  try {
    get(64);
  } catch (const Error&) {
    // Where there is no GPU the cubin cannot be loaded; it is stored all the same.
  }
  const std::string key = kernel_key(*t, problem, {{"T", 64}}, sample_device(), version).digest();
  const auto stored = store.MemoryStore::find_cubin(key);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->cubin.substr(1, 3), "ELF");
  EXPECT_EQ(stored->description, "mix_fast T=64");
  ASSERT_EQ(stored->symbols.size(), 1U);
  EXPECT_THAT(stored->symbols[0], HasSubstr("mix"));
  EXPECT_EQ(store.find_fact("nvrtc"), version);
}

TEST_F(KernelCacheWithNvrtc, KeysAreNamedForTheNvrtcThatIsLoaded) {
  store.put_fact("nvrtc", "1.0");
  EXPECT_EQ(nvrtc_version_for_keys(store), version);
}

TEST(StoredCubin, KeepsSymbolsAndResourcesInTheOrderOfTheLaunches) {
  jit::CompiledUnit unit;
  unit.cubin = "bytes";
  unit.kernels = {{.name_expression = "kiln::a<C>", .symbol = "_Za", .registers = 40, .spill_store_bytes = 8},
                  {.name_expression = "kiln::b<C>", .symbol = "_Zb", .registers = 12, .static_shared_bytes = 64}};
  const StoredCubin stored = to_stored_cubin("key", *ManifestDraft{}.build(), {{"T", 64}}, unit);
  EXPECT_EQ(stored.key, "key");
  EXPECT_EQ(stored.cubin, "bytes");
  EXPECT_EQ(stored.description, "mix_fast T=64");
  EXPECT_THAT(stored.symbols, ElementsAre("_Za", "_Zb"));
  const Json resources = Json::parse(stored.resources);
  ASSERT_EQ(resources.size(), 2U);
  EXPECT_EQ(resources[0]["kernel"], "kiln::a<C>");
  EXPECT_EQ(resources[0]["registers"], 40);
  EXPECT_EQ(resources[0]["spill_store_bytes"], 8);
  EXPECT_EQ(resources[1]["static_shared_bytes"], 64);
}

}  // namespace
}  // namespace kiln
