#include "base/digest.h"

#include <array>
#include <mutex>
#include <utility>

#include <openssl/evp.h>

#include "kiln/error.h"

namespace kiln {

struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->md == nullptr || EVP_DigestInit_ex(context_->md, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::internal, "OpenSSL offers no SHA-256");
  }
}

Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view bytes) {
  if (EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) != 1) {
    throw Error(ErrorCode::internal, "EVP_DigestUpdate failed");
  }
  return *this;
}

Sha256& Sha256::field(std::string_view bytes) { return update(std::to_string(bytes.size()) + ":").update(bytes); }

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned int length = 0;
  if (EVP_DigestFinal_ex(context_->md, raw.data(), &length) != 1) {
    throw Error(ErrorCode::internal, "EVP_DigestFinal_ex failed");
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += kDigits[raw[i] >> 4];
    text += kDigits[raw[i] & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) { return Sha256().update(bytes).hex(); }

struct LazyDigest::State {
  std::once_flag once;
  std::vector<std::string> fields;
  std::string hex;
};

LazyDigest::LazyDigest(std::vector<std::string> fields) : state_(std::make_shared<State>()) {
  state_->fields = std::move(fields);
}

const std::string& LazyDigest::hex() const {
  static const std::string kNothing;
  if (state_ == nullptr) return kNothing;
  State& state = *state_;
  std::call_once(state.once, [&state] {
    Sha256 sha;
    for (const std::string& field : state.fields) sha.field(field);
    state.hex = sha.hex();
    state.fields = {};
  });
  return state.hex;
}

}  // namespace kiln
