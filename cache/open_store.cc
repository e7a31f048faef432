#include "base/log.h"
#include "cache/overlay_store.h"
#include "cache/sqlite_store.h"
#include "runtime/memory_store.h"
#include "runtime/store.h"

namespace kiln {

std::unique_ptr<Store> open_store(const StoreOptions& options) {
  if (options.path.empty()) return std::make_unique<MemoryStore>();
  try {
    if (std::unique_ptr<Store> store = cache::SqliteStore::open(options)) {
      return std::make_unique<cache::OverlayStore>(std::move(store));
    }
  } catch (const std::exception& error) {
    log("cache")->warn("results are kept in memory only: {}", error.what());
  }
  return std::make_unique<MemoryStore>();
}

}  // namespace kiln
