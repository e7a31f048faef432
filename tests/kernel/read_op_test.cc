// What a check feeds the operands of an op, as the op says it.
#include "kernel/manifest.h"

#include <gmock/gmock.h>

#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// An op with the given check.inputs; sequences of x begin at `starts` and `ends`.
OpSpec op_with(const std::string& inputs) {
  return read_op(R"(
name = "sums"
[dims]
B = { min = 0 }
T = { min = 0 }
[dtypes]
x = { values = ["f32"] }
place = { values = ["i32"], default = "i32" }
wide = { values = ["i32", "i64"], default = "i32" }
[operands]
x = { role = "in", dtype = "x", elements = "T" }
y = { role = "out", dtype = "x", elements = "B" }
starts = { role = "in", dtype = "place", elements = "B + 1" }
ends = { role = "in", dtype = "place", elements = "B + 1" }
wides = { role = "in", dtype = "wide", elements = "B + 1" }
[check]
tolerance = { f32 = 1e-5 }
inputs = { )" + inputs +
                     " }\n",
                 "ops/sums.toml");
}

std::string refused(const std::string& inputs) {
  return message_of(ErrorCode::invalid_manifest, [&] { static_cast<void>(op_with(inputs)); });
}

TEST(CheckInputs, AreADistributionOrOffsets) {
  const OpSpec op = op_with(R"(x = "uniform", starts = { kind = "offsets", total = "T", largest = 7 })");
  EXPECT_EQ(op.check.inputs.at("x").distribution, Distribution::uniform);
  const CheckInput& starts = op.check.inputs.at("starts");
  EXPECT_EQ(starts.distribution, Distribution::offsets);
  EXPECT_EQ(starts.total.text(), "T");
  EXPECT_EQ(starts.largest.evaluate(Scope()), 7);
  EXPECT_EQ(starts.same_as, "");
}

TEST(CheckInputs, OfferWhatIsAllowedInPlaceOfAnUnknownWord) {
  EXPECT_THAT(refused(R"(x = "gaussian")"),
              AllOf(HasSubstr("check.inputs.x"), HasSubstr("'gaussian'; allowed: normal, uniform, positive")));
  EXPECT_THAT(refused(R"(z = "normal")"), AllOf(HasSubstr("check.inputs.z"), HasSubstr("names no operand")));
  EXPECT_THAT(refused(R"(starts = { kind = "ramp", total = "T", largest = "T" })"),
              AllOf(HasSubstr("check.inputs.starts.kind"), HasSubstr("'ramp'; the only kind is \"offsets\"")));
}

TEST(CheckInputs, OfOffsetsNeedTheirTotalAndTheLargestLength) {
  EXPECT_THAT(refused(R"(starts = { kind = "offsets", largest = "T" })"), HasSubstr("check.inputs.starts.total"));
  EXPECT_THAT(refused(R"(starts = { kind = "offsets", total = "T" })"), HasSubstr("check.inputs.starts.largest"));
  EXPECT_THAT(refused(R"(starts = { kind = "offsets", total = "Q", largest = "T" })"),
              AllOf(HasSubstr("check.inputs.starts.total"), HasSubstr("unknown symbol 'Q'")));
  EXPECT_THAT(refused(R"(starts = { kind = "offsets", total = "T", largest = "T", smallest = 1 })"),
              HasSubstr("smallest"));
}

TEST(CheckInputs, OfOffsetsAreOfI32OperandsThatAreRead) {
  for (const char* operand : {"x", "y", "wides"}) {
    EXPECT_THAT(refused(std::string(operand) + R"( = { kind = "offsets", total = "T", largest = "T" })"),
                AllOf(HasSubstr(std::string("check.inputs.") + operand), HasSubstr("only dtype is i32")))
        << operand;
  }
}

TEST(CheckInputs, OfOffsetsMayBeThoseOfAnother) {
  const std::string starts = R"(starts = { kind = "offsets", total = "T", largest = "T" })";
  const auto ends = [](const std::string& other) {
    return R"(, ends = { kind = "offsets", total = "T", largest = "T", same_as = ")" + other + "\" }";
  };
  EXPECT_EQ(op_with(starts + ends("starts")).check.inputs.at("ends").same_as, "starts");
  for (const char* other : {"x", "ends", "nothing"}) {
    EXPECT_THAT(refused(starts + ends(other)),
                AllOf(HasSubstr("check.inputs.ends"), HasSubstr(std::string("'") + other + "'")))
        << other;
  }
}

}  // namespace
}  // namespace kiln
