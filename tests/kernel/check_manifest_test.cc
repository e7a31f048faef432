#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel/manifest.h"
#include "kernel/template_set.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CheckManifest : public testing::Test {
 protected:
  ManifestDraft draft;

  std::string refusal() const {
    const std::string message = message_of(ErrorCode::invalid_manifest, [this] { draft.build(); });
    EXPECT_THAT(message, HasSubstr("mix_fast.toml: "));
    return message;
  }
  std::string refusal_of_tables(const std::string& tables) {
    draft.tables = tables;
    return refusal();
  }
  std::string refusal_of_arg(const std::string& arg) {
    draft.launch = "kernel = \"k\"\ngrid = 1\nblock = 1\nargs = [" + arg + "]";
    return refusal();
  }
};

TEST_F(CheckManifest, TheSampleIsSound) { EXPECT_NO_THROW(draft.build()); }

TEST_F(CheckManifest, EveryEmbeddedTemplateIsSound) {
  const TemplateSet templates;
  for (const char* name : {"simt_gemm", "sm80_gemm", "sm90_gemm", "reference_gemm"}) {
    EXPECT_NO_THROW(static_cast<void>(templates.find(name))) << name;
  }
}

TEST_F(CheckManifest, OnlyVariationsAreHandled) {
  draft.top = "handles = [\"layout\"]";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("handles"), HasSubstr("'layout' is no choice of the op with omit_default")));
}

TEST_F(CheckManifest, EverySymbolMustBeKnownWhereItIsUsed) {
  EXPECT_THAT(refusal_of_tables("[let]\na = \"smem_per_blok\""),
              AllOf(HasSubstr("let.a"), HasSubstr("did you mean 'smem_per_block'"), HasSubstr("of op mix")));
  EXPECT_THAT(refusal_of_tables("[require]\n\"T < Q\" = \"why\""),
              AllOf(HasSubstr("require.\"T < Q\""), HasSubstr("'Q'")));
  EXPECT_THAT(refusal_of_tables("[workspace.w]\nbytes = \"Q\""), HasSubstr("workspace.w.bytes"));
  EXPECT_THAT(refusal_of_tables("[cost]\ncycles = \"Q\""), HasSubstr("cost.cycles"));
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\noperand = \"x\"\ndims = [\"Q\"]\nbox = [1]"),
              HasSubstr("tensor_map.m.dims"));
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\noperand = \"x\"\ndims = [\"M\"]\nbox = [\"Q\"]"),
              HasSubstr("tensor_map.m.box"));
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\noperand = \"x\"\ndims = [\"M\"]\nbox = [1]\nswizzle = \"Q\""),
              HasSubstr("tensor_map.m.swizzle"));
}

TEST_F(CheckManifest, EverySymbolOfALaunchMustBeKnown) {
  for (const char* key : {"when", "shared", "pdl", "cluster"}) {
    draft.launch = "kernel = \"k\"\ngrid = 1\nblock = 1\n" + std::string(key) + " = \"Q\"";
    EXPECT_THAT(refusal(), AllOf(HasSubstr("launch[0]." + std::string(key)), HasSubstr("'Q'")));
  }
  draft.launch = "kernel = \"k\"\ngrid = \"Q\"\nblock = 1";
  EXPECT_THAT(refusal(), HasSubstr("launch[0].grid"));
  draft.launch = "kernel = \"k\"\ngrid = 1\nblock = [1, \"Q\"]";
  EXPECT_THAT(refusal(), HasSubstr("launch[0].block"));
}

TEST_F(CheckManifest, WhatIsRequiredOfTheProblemReadsNoParameter) {
  draft.top = "[require_problem]\n\"T > 1\" = \"why\"";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("require_problem.\"T > 1\""), HasSubstr("'T'")));
}

TEST_F(CheckManifest, AReferenceKernelReadsNoParameter) {
  EXPECT_THAT(refusal_of_tables("[[check.launch]]\nkernel = \"k\"\ngrid = \"T\"\nblock = 1"),
              HasSubstr("check.launch[0].grid"));
}

TEST_F(CheckManifest, AParameterMayNotHideASymbol) {
  for (const char* name : {"M", "sizeof_x", "x_is_bf16", "layout_is_row", "align_x", "sm_count"}) {
    draft.params = "T = [32]\n" + std::string(name) + " = [1]";
    EXPECT_THAT(refusal(), AllOf(HasSubstr("params." + std::string(name)), HasSubstr("choose another name")));
  }
}

TEST_F(CheckManifest, ALetMayNotHideASymbolOrAParameter) {
  for (const char* name : {"M", "T", "clock_mhz"}) {
    EXPECT_THAT(refusal_of_tables("[let]\n" + std::string(name) + " = 1"),
                AllOf(HasSubstr("let." + std::string(name)), HasSubstr("already a symbol")));
  }
}

TEST_F(CheckManifest, ConstantsOfTheCostModelServeNothingElse) {
  draft.tables = "[let]\na = \"T * rate\"\nb = \"a + 1\"\n[cost]\ncycles = \"b\"\n[cost.constants]\nrate = 7";
  EXPECT_NO_THROW(draft.build());
  const std::string model = "[let]\na = \"T * rate\"\n[cost]\ncycles = \"a\"\n[cost.constants]\nrate = 7\n";
  EXPECT_THAT(refusal_of_tables(model + "[require]\n\"T < rate\" = \"why\""),
              AllOf(HasSubstr("require.\"T < rate\""), HasSubstr("only let and cost.cycles")));
  EXPECT_THAT(refusal_of_tables(model + "[workspace.w]\nbytes = \"a\""),
              AllOf(HasSubstr("workspace.w.bytes"), HasSubstr("'a', which is or depends on a constant")));
  EXPECT_THAT(refusal_of_tables("[cost]\ncycles = \"M\"\n[cost.constants]\nrate = 7"),
              AllOf(HasSubstr("cost.constants.rate"), HasSubstr("used nowhere")));
  EXPECT_THAT(refusal_of_tables("[cost]\ncycles = \"M\"\n[cost.constants]\nM = 7"),
              AllOf(HasSubstr("cost.constants.M"), HasSubstr("choose another name")));
}

TEST_F(CheckManifest, ArgumentsNameWhatTheOpAndTheManifestHave) {
  EXPECT_THAT(
      refusal_of_arg("{ pointer = \"z\" }"),
      AllOf(HasSubstr("launch[0].args[0]"), HasSubstr("'z' is no operand of the op"), HasSubstr("allowed: x, y")));
  EXPECT_THAT(refusal_of_arg("{ scalar = \"beta\" }"), HasSubstr("'beta' is no scalar of the op"));
  EXPECT_THAT(refusal_of_arg("{ workspace = \"w\" }"),
              AllOf(HasSubstr("'w' is no workspace"), HasSubstr("allowed: none")));
  EXPECT_THAT(refusal_of_arg("{ map = \"x\" }"), HasSubstr("'x' is no tensor map"));
  EXPECT_THAT(refusal_of_arg("{ value = \"Q\" }"), HasSubstr("'Q'"));
  EXPECT_THAT(refusal_of_arg("{ value = 1 }, { struct = [{ value = 1 }, { scalar = \"beta\" }] }"),
              HasSubstr("launch[0].args[1].struct[1]"));
}

TEST_F(CheckManifest, TensorMapsNameWhatTheOpAndTheManifestHave) {
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\noperand = \"z\"\ndims = [1]\nbox = [1]"),
              HasSubstr("'z' is no operand"));
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\nworkspace = \"w\"\ndtype = \"f32\"\ndims = [1]\nbox = [1]"),
              HasSubstr("'w' is no workspace"));
  EXPECT_THAT(refusal_of_tables("[tensor_map.m]\noperand = \"x\"\ndtype = \"q\"\ndims = [1]\nbox = [1]"),
              HasSubstr("'q' is no dtype"));
}

TEST_F(CheckManifest, AcceptAndBakeNameWhatTheOpHas) {
  draft.top = "[[accept]]\nz = [\"bf16\"]";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("accept[0].z"), HasSubstr("allowed: x, y")));
  draft.top = "[[accept]]\ny = \"=z\"";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("accept[0].y"), HasSubstr("'z' is no dtype of the op")));
  draft.top = "bake = [\"K\"]";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("bake"), HasSubstr("'K' is no dim of the op")));
}

TEST_F(CheckManifest, TheDefaultGivesEveryParameterAndNoOther) {
  draft.fallback = "";
  EXPECT_THAT(refusal(), HasSubstr("default: says nothing of parameter 'T'"));
  draft.fallback = "T = 64\nU = 1";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("default.U"), HasSubstr("'U' is no parameter")));
}

TEST_F(CheckManifest, SomethingMustSayWhatIsRight) {
  const std::string reference = "reference = \"mix_reference\"\n";
  draft.op.erase(draft.op.find(reference), reference.size());
  EXPECT_THAT(refusal(), HasSubstr("check: neither the op nor the manifest says what is right"));
  draft.tables = "[check]\nreference = \"slow\"";
  EXPECT_NO_THROW(draft.build());
  draft.tables = "[[check.launch]]\nkernel = \"k\"\ngrid = \"M\"\nblock = 1";
  EXPECT_NO_THROW(draft.build());
}

}  // namespace
}  // namespace kiln
