#include "kiln/config.h"

#include <limits>

#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln {
namespace {

TEST(Config, TextIsSortedByName) {
  EXPECT_EQ(to_text(Config{{"STAGES", 4}, {"BM", 128}, {"BK", 64}}), "BK=64,BM=128,STAGES=4");
}

TEST(Config, ParsingTheTextGivesTheConfigBack) {
  const Config config{{"BM", 128}, {"OFFSET", -3}, {"BIG", std::numeric_limits<std::int64_t>::max()}};
  EXPECT_EQ(parse_config(to_text(config)), config);
  EXPECT_EQ(parse_config(to_text(Config{})), Config{});
}

TEST(Config, OrderOfTheTextDoesNotMatter) { EXPECT_EQ(parse_config("BM=1,BK=2"), parse_config("BK=2,BM=1")); }

TEST(Config, ABadPieceIsNamed) {
  for (const char* text :
       {"BM", "BM=", "=1", "BM=1.5", "BM=1,BM=2", "BM=1,", ",BM=1", "BM= 1", "BM=9223372036854775808"}) {
    EXPECT_THROW(parse_config(text), Error) << text;
  }
  try {
    parse_config("BK=64,BM=wide");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("'BM=wide'"), std::string::npos);
  }
}

}  // namespace
}  // namespace kiln
