#include "base/digest.h"

#include <thread>

#include <gtest/gtest.h>

namespace kiln {
namespace {

// The examples of FIPS 180-4, as NIST publishes them.
TEST(Digest, IsTheSha256OfTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Digest, UpdatingInPiecesIsTheSameAsAtOnce) {
  EXPECT_EQ(Sha256().update("ab").update("").update("c").hex(), sha256_hex("abc"));
}

TEST(Digest, TakesBytesThatAreNotText) {
  EXPECT_NE(sha256_hex(std::string("a\0b", 3)), sha256_hex(std::string("a\0c", 3)));
  EXPECT_NE(sha256_hex(std::string(1, '\0')), sha256_hex(""));
}

TEST(Digest, FieldsNeverRunIntoOneAnother) {
  const auto of = [](std::initializer_list<std::string_view> fields) {
    Sha256 sha;
    for (const std::string_view field : fields) sha.field(field);
    return sha.hex();
  };
  EXPECT_NE(of({"ab", "c"}), of({"a", "bc"}));
  EXPECT_NE(of({"ab"}), of({"ab", ""}));
  EXPECT_NE(of({"", "ab"}), of({"ab", ""}));
  EXPECT_NE(of({"a", "1:b"}), of({"a1:", "b"}));
  EXPECT_EQ(of({"a", "b"}), of({"a", "b"}));
}

TEST(LazyDigest, IsThatOfTheSameFieldsAddedAtOnce) {
  const LazyDigest digest({"a", "", "bc"});
  const LazyDigest copy = digest;
  EXPECT_EQ(digest.hex(), Sha256().field("a").field("").field("bc").hex());
  EXPECT_EQ(&copy.hex(), &digest.hex());
  EXPECT_NE(digest.hex(), LazyDigest({"a", "b", "c"}).hex());
  EXPECT_EQ(LazyDigest().hex(), "");
}

TEST(LazyDigest, ThreadsThatReadItAtOnceGetTheSame) {
  const LazyDigest digest({std::string(100'000, 'x')});
  std::vector<std::string> read(4);
  std::vector<std::thread> threads;
  for (std::string& hex : read) threads.emplace_back([&hex, &digest] { hex = digest.hex(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& hex : read) EXPECT_EQ(hex, digest.hex());
}

}  // namespace
}  // namespace kiln
