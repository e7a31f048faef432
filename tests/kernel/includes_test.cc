#include "kernel/includes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Files = std::map<std::string, std::string>;

IncludeSet collect(const Files& files, const std::string& name = "k.cuh") {
  return collect_includes(
      name,
      [&files](const std::string& wanted) -> std::optional<std::string> {
        const auto it = files.find(wanted);
        if (it == files.end()) return std::nullopt;
        return it->second;
      },
      "the test");
}

std::vector<std::string> names(const IncludeSet& set) {
  std::vector<std::string> result;
  for (const auto& [name, text] : set.headers) result.push_back(name);
  return result;
}

TEST(Includes, AreFollowedToTheEnd) {
  const Files files{{"k.cuh", "#include \"a.cuh\"\n#include \"tile/b.cuh\"\n"},
                    {"a.cuh", "#include \"c.cuh\"\nint a;\n"},
                    {"tile/b.cuh", "int b;\n"},
                    {"c.cuh", "int c;\n"},
                    {"unused.cuh", ""}};
  const IncludeSet set = collect(files);
  EXPECT_THAT(names(set), ElementsAre("a.cuh", "c.cuh", "k.cuh", "tile/b.cuh"));
  EXPECT_EQ(set.headers.at("a.cuh"), files.at("a.cuh"));
}

TEST(Includes, ACircleIsReadOnce) {
  const IncludeSet set =
      collect({{"k.cuh", "#include \"a.cuh\"\n"}, {"a.cuh", "#include \"k.cuh\"\n#include \"a.cuh\"\n"}});
  EXPECT_THAT(names(set), ElementsAre("a.cuh", "k.cuh"));
}

TEST(Includes, AreSeenHoweverTheyAreSpaced) {
  const IncludeSet set =
      collect({{"k.cuh", "  #  include\t\"a.cuh\"  // why\r\n#include\"b.cuh\""}, {"a.cuh", ""}, {"b.cuh", ""}});
  EXPECT_THAT(names(set), ElementsAre("a.cuh", "b.cuh", "k.cuh"));
}

TEST(Includes, TextThatOnlyMentionsOneIsNone) {
  const IncludeSet set =
      collect({{"k.cuh", "// #include \"a.cuh\"\nint x; #include \"b.cuh\"\n#includes \"c.cuh\"\n"}});
  EXPECT_THAT(names(set), ElementsAre("k.cuh"));
}

TEST(Includes, SystemHeadersAreLeftToTheCompiler) {
  const IncludeSet set = collect({{"k.cuh", "#include <cuda/std/array>\n"}});
  EXPECT_THAT(set.system, ElementsAre("cuda/std/array"));
  EXPECT_THAT(collect({{"k.cuh", ""}}).system, IsEmpty());
}

TEST(Includes, AMissingOneIsNamedWithItsIncluderAndWhereItWasLookedFor) {
  EXPECT_THAT(message_of(ErrorCode::not_found,
                         [] {
                           collect({{"k.cuh", "#include \"a.cuh\"\n"}, {"a.cuh", "#include \"gone.cuh\"\n"}});
                         }),
              AllOf(HasSubstr("'gone.cuh'"), HasSubstr("included by a.cuh"), HasSubstr("looked in the test")));
  EXPECT_THAT(message_of(ErrorCode::not_found, [] { collect({}); }), HasSubstr("'k.cuh' (the manifest's source)"));
}

}  // namespace
}  // namespace kiln
