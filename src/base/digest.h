// SHA-256 (FIPS 180-4, through OpenSSL) of text and bytes: the identity of sources, problems and cubins.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Incremental. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(std::string_view bytes);
  // Adds the length before the bytes, so that no two sequences of fields hash alike.
  Sha256& field(std::string_view bytes);
  // 64 lower-case hex digits. Ends the digest: call once.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// 64 lower-case hex digits of the SHA-256 of `bytes`.
std::string sha256_hex(std::string_view bytes);

// The digest of a sequence of fields, as Sha256::field adds them, worked out when it is first read: setting OpenSSL up
// costs a short process more than all else it asks for. Copies share the digest. Thread-safe.
class LazyDigest {
 public:
  LazyDigest() = default;
  // Keeps the fields, which may be large, until the digest is read.
  explicit LazyDigest(std::vector<std::string> fields);
  // 64 lower-case hex digits; empty for the digest of nothing, LazyDigest{}.
  const std::string& hex() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kiln
