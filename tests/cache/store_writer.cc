// Writes to a store as fast as it can and says on stdout, one number a line, which trials are safely stored:
//   store_writer DATABASE WRITER FIRST COUNT
// Writes the trials FIRST, FIRST + 1, … of problem M = WRITER; ends after COUNT of them (0: never, it waits to be
// killed).
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "runtime/store.h"
#include "tests/runtime/sample_rows.h"

int main(int argc, char** argv) {
  using namespace kiln;
  if (argc != 5) return 2;
  StoreOptions options;
  options.path = argv[1];
  options.busy_timeout = std::chrono::seconds(20);
  options.max_cubin_bytes = 512 * 1024;
  const std::int64_t writer = std::atoll(argv[2]);
  const std::int64_t first = std::atoll(argv[3]);
  const std::int64_t count = std::atoll(argv[4]);

  const std::unique_ptr<Store> store = open_store(options);
  if (!store->writable()) return 3;
  for (std::int64_t n = first; count == 0 || n < first + count; ++n) {
    // Big rows between the small ones keep the log growing, the checkpoints coming and the bound on cubins at work.
    if (n % 5 == 0) {
      store->put_cubin(sample_cubin("k" + std::to_string(writer) + "-" + std::to_string(n % 50), 30'000));
    }
    if (n % 7 == 0) store->find_cubin("k" + std::to_string((writer + 1) % 4) + "-" + std::to_string(n % 50));
    if (n % 11 == 0) store->record_miss(sample_miss(writer));
    if (!store->put_trial(sample_trial(writer, n))) continue;
    const std::string line = std::to_string(n) + "\n";
    if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return 4;
  }
  return 0;
}
