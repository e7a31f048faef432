#include "cache/overlay_store.h"

#include <gtest/gtest.h>

#include "tests/runtime/sample_rows.h"

namespace kiln::cache {
namespace {

constexpr const char* kClass = "cc9.0-test";

// A store that can be told to refuse what it is given.
class FickleStore : public MemoryStore {
 public:
  bool refuses = false;
  bool writable() const override { return !refuses; }
  bool put_cubin(const StoredCubin& cubin) override { return !refuses && MemoryStore::put_cubin(cubin); }
  bool put_decision(const Decision& decision) override { return !refuses && MemoryStore::put_decision(decision); }
  bool put_trial(const Trial& trial) override { return !refuses && MemoryStore::put_trial(trial); }
  bool record_miss(const Miss& miss) override { return !refuses && MemoryStore::record_miss(miss); }
};

class OverlayStoreTest : public testing::Test {
 protected:
  OverlayStoreTest() {
    auto fickle = std::make_unique<FickleStore>();
    below = fickle.get();
    store = std::make_unique<OverlayStore>(std::move(fickle));
  }
  FickleStore* below = nullptr;
  std::unique_ptr<OverlayStore> store;
};

TEST_F(OverlayStoreTest, WhatIsStoredBelowIsNotKeptTwice) {
  EXPECT_TRUE(store->put_decision(sample_decision(1)));
  EXPECT_TRUE(below->find_decision(kClass, sample_problem(1)));
  EXPECT_EQ(store->decisions("gemm", "").size(), 1u);
}

TEST_F(OverlayStoreTest, WhatIsRefusedBelowIsKeptAndFound) {
  below->refuses = true;
  EXPECT_FALSE(store->writable());
  EXPECT_FALSE(store->put_decision(sample_decision(1)));
  EXPECT_FALSE(store->put_trial(sample_trial(1, 64)));
  EXPECT_FALSE(store->put_cubin(sample_cubin("k", 10)));
  EXPECT_FALSE(store->record_miss(sample_miss(3)));
  EXPECT_FALSE(below->find_decision(kClass, sample_problem(1)));
  EXPECT_TRUE(store->find_decision(kClass, sample_problem(1)));
  EXPECT_EQ(store->trials(kClass, sample_problem(1)).size(), 1u);
  EXPECT_EQ(store->trials_of_template(kClass, "simt_gemm").size(), 1u);
  EXPECT_TRUE(store->find_cubin("k"));
  EXPECT_EQ(store->misses().size(), 1u);
}

TEST_F(OverlayStoreTest, OfTwoRowsWithOneKeyTheBetterIsAnswered) {
  Decision slow = sample_decision(1);
  slow.time_us = 99;
  store->put_decision(slow);
  store->put_trial(sample_trial(1, 64));
  store->record_miss(sample_miss(3));
  below->refuses = true;
  Decision predicted = sample_decision(1);
  predicted.evidence = Evidence::predicted;
  store->put_decision(predicted);
  EXPECT_EQ(store->find_decision(kClass, sample_problem(1))->time_us, 99);
  Decision newer = sample_decision(1);
  newer.unix_time += 1;
  store->put_decision(newer);
  store->put_trial(sample_trial(1, 64));
  store->put_trial(sample_trial(1, 128));
  store->record_miss(sample_miss(3));
  EXPECT_EQ(store->find_decision(kClass, sample_problem(1))->time_us, newer.time_us);
  ASSERT_EQ(store->decisions("gemm", kClass).size(), 1u);
  EXPECT_EQ(store->decisions("gemm", kClass)[0].time_us, newer.time_us);
  EXPECT_EQ(store->trials(kClass, sample_problem(1)).size(), 2u);
  ASSERT_EQ(store->misses().size(), 1u);
  EXPECT_EQ(store->misses()[0].count, 2);
}

}  // namespace
}  // namespace kiln::cache
