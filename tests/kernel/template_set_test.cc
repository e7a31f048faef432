#include "kernel/template_set.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/embedded.h"
#include "tests/cache/scratch_folder.h"
#include "tests/kernel/sample_template.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class TemplateSetTest : public testing::Test {
 protected:
  TemplateSetTest() { write("mix.cuh", "#pragma once\n"); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = folder.path() / name;
    std::filesystem::create_directories(file.parent_path());
    cache::write_file(file, text);
    return file;
  }
  // A template of op mix, which another manifest brings.
  static ManifestDraft user_of_mix(const std::string& name, int priority = 0) {
    ManifestDraft draft;
    draft.name = name;
    draft.op.clear();
    draft.top = "op = \"mix\"\npriority = " + std::to_string(priority);
    return draft;
  }
  static std::vector<std::string> names(const std::vector<TemplatePtr>& templates) {
    std::vector<std::string> result;
    for (const TemplatePtr& t : templates) result.push_back(t->manifest.name);
    return result;
  }

  cache::ScratchFolder folder;
};

TEST_F(TemplateSetTest, HoldsTheEmbeddedTemplates) {
  const TemplateSet templates;
  const TemplatePtr simt = templates.find("simt_gemm");
  EXPECT_EQ(simt->file, "templates/gemm/simt_gemm.toml");
  EXPECT_EQ(simt->include, "gemm/simt_gemm.cuh");
  EXPECT_EQ(simt->headers.count("gemm/simt_gemm.cuh"), 1U);
  EXPECT_EQ(simt->headers.count("ptx/types.cuh"), 1U);
  EXPECT_EQ(simt->op, templates.find_op("gemm"));
  EXPECT_THAT(templates.op_names(), Contains("gemm"));
}

TEST_F(TemplateSetTest, EmbeddedManifestsBearTheNamesOfTheirTemplates) {
  const TemplateSet templates;
  for (const EmbeddedFile& file : embedded_files()) {
    const std::filesystem::path path(file.path);
    if (!file.path.starts_with("templates/") || path.extension() != ".toml" || path.parent_path().stem() == "ops")
      continue;
    EXPECT_EQ(templates.find(path.stem())->manifest.name, path.stem()) << file.path;
  }
}

TEST_F(TemplateSetTest, ReferencesAreNotAmongTheTunableTemplates) {
  const std::vector<std::string> of_gemm = names(TemplateSet().of_op("gemm"));
  EXPECT_THAT(of_gemm, Contains("simt_gemm"));
  EXPECT_THAT(of_gemm, Not(Contains("reference_gemm")));
  EXPECT_THAT(names(TemplateSet().all()), Contains("reference_gemm"));
}

TEST_F(TemplateSetTest, ATemplateIsReadOnce) {
  const TemplateSet templates;
  EXPECT_EQ(templates.find("simt_gemm"), templates.find("simt_gemm"));
}

TEST_F(TemplateSetTest, UnknownNamesAreAnsweredWithThoseThereAre) {
  const TemplateSet templates;
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { static_cast<void>(templates.find("simt_gem")); }),
              AllOf(HasSubstr("did you mean 'simt_gemm'"), HasSubstr("reference_gemm")));
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { static_cast<void>(templates.find_op("gem")); }),
              AllOf(HasSubstr("no op 'gem'"), HasSubstr("did you mean 'gemm'?")));
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { static_cast<void>(templates.of_op("convolution")); }),
              HasSubstr("no op 'convolution'"));
}

TEST_F(TemplateSetTest, WhatACheckPoisonsDoesNotChangeTheDigest) {
  ManifestDraft draft;
  const std::string role = "role = \"out\"";
  draft.op.replace(draft.op.find(role), role.size(), "role = \"inout\"");
  const TemplatePtr before = TemplateSet().load(write("mix.toml", draft.text()));
  draft.op.insert(draft.op.find("role = \"inout\""), "unread_when = { alpha = 0.0 }\n");
  const TemplatePtr after = TemplateSet().load(write("mix.toml", draft.text()));
  EXPECT_FALSE(after->op->find_operand("y")->unread_when.empty());
  EXPECT_EQ(before->digest.hex(), after->digest.hex());
}

TEST_F(TemplateSetTest, AFolderAddsToTheEmbeddedOnesAtAnyDepth) {
  write("deep/er/mix.cuh", "#pragma once\n");
  write("deep/er/mix.toml", ManifestDraft{}.text());
  const TemplateSet templates({folder.path()});
  EXPECT_EQ(templates.find("mix_fast")->file, (folder.path() / "deep/er/mix.toml").string());
  EXPECT_THAT(templates.op_names(), AllOf(Contains("mix"), Contains("gemm")));
  EXPECT_EQ(templates.find_op("mix")->dims.size(), 3U);
}

TEST_F(TemplateSetTest, TunableTemplatesComeByPriorityThenName) {
  write("1.toml", user_of_mix("b").text());
  write("2.toml", user_of_mix("a").text());
  write("3.toml", user_of_mix("z", 5).text());
  ManifestDraft reference;
  reference.name = "mix_reference";
  write("4.toml", reference.text());
  write("5.toml", user_of_mix("low", -1).text());
  EXPECT_THAT(names(TemplateSet({folder.path()}).of_op("mix")), ElementsAre("z", "a", "b", "low"));
}

TEST_F(TemplateSetTest, ALaterFolderWinsOnEqualNames) {
  write("one/mix.cuh", "");
  write("two/mix.cuh", "");
  ManifestDraft draft;
  write("one/mix.toml", draft.text());
  draft.top = "summary = \"the second\"";
  write("two/mix.toml", draft.text());
  EXPECT_EQ(TemplateSet({folder.path() / "one", folder.path() / "two"}).find("mix_fast")->manifest.summary,
            "the second");
  EXPECT_EQ(TemplateSet({folder.path() / "two", folder.path() / "one"}).find("mix_fast")->manifest.summary, "");
}

TEST_F(TemplateSetTest, TomlFilesThatAreNoManifestsAreLeftAlone) {
  write("suite.toml", "name = \"a suite\"\n");
  write("gpus.toml", "[[gpu]]\nname = \"x\"\n");
  write("mix.toml", ManifestDraft{}.text());
  const TemplateSet templates({folder.path()});
  EXPECT_THAT(names(templates.all()), Contains("mix_fast"));
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { static_cast<void>(templates.find("a suite")); }),
              HasSubstr("no template 'a suite'"));
}

TEST_F(TemplateSetTest, AMissingFolderIsNoError) { EXPECT_NO_THROW(TemplateSet({folder.path() / "nowhere"})); }

TEST_F(TemplateSetTest, ABadManifestIsAnErrorWhenAskedForAndAbsentFromListings) {
  ManifestDraft bad = user_of_mix("bad");
  bad.launch = "kernel = \"k\"\ngrid = \"Q\"\nblock = 1";
  write("bad.toml", bad.text());
  write("good.toml", ManifestDraft{}.text());
  write("syntax.toml", "name = = 3");
  const TemplateSet templates({folder.path()});
  EXPECT_THAT(message_of(ErrorCode::invalid_manifest, [&] { static_cast<void>(templates.find("bad")); }),
              AllOf(HasSubstr("bad.toml: launch[0].grid"), HasSubstr("'Q'")));
  EXPECT_THAT(names(templates.of_op("mix")), ElementsAre("mix_fast"));
  EXPECT_THAT(names(templates.all()), AllOf(Contains("mix_fast"), Not(Contains("bad"))));
}

TEST_F(TemplateSetTest, AMissingSourceOrIncludeIsNamedWithItsManifest) {
  ManifestDraft draft;
  draft.source = "gone.cuh";
  EXPECT_THAT(message_of(ErrorCode::invalid_manifest, [&] { TemplateSet().load(write("mix.toml", draft.text())); }),
              AllOf(HasSubstr("mix.toml: source"), HasSubstr("'gone.cuh'"), HasSubstr("the embedded templates")));
  write("mix.cuh", "#include \"missing.cuh\"\n");
  EXPECT_THAT(
      message_of(ErrorCode::invalid_manifest, [&] { TemplateSet().load(write("mix.toml", ManifestDraft{}.text())); }),
      AllOf(HasSubstr("'missing.cuh'"), HasSubstr("included by mix.cuh")));
}

TEST_F(TemplateSetTest, IncludesAreFoundBesideTheManifestBeforeTheEmbeddedOnes) {
  write("mix.cuh", "#include \"tile/swizzle.cuh\"\n#include \"ptx/sync.cuh\"\n");
  write("tile/swizzle.cuh", "// our own\n");
  const TemplatePtr t = TemplateSet().load(write("mix.toml", ManifestDraft{}.text()));
  EXPECT_EQ(t->headers.at("tile/swizzle.cuh"), "// our own\n");
  EXPECT_EQ(t->headers.count("ptx/sync.cuh"), 1U);
}

TEST_F(TemplateSetTest, OnlyATemplateThatIncludesSystemHeadersIsGivenTheirFolders) {
  const TemplateSet templates({}, {folder.path()});
  EXPECT_TRUE(templates.find("simt_gemm")->include_paths.empty());
  write("mix.cuh", "#include <cuda_fp16.h>\n");
  TemplateSet own({}, {folder.path(), folder.path() / "nowhere"});
  const std::vector<std::string> paths = own.load(write("mix.toml", ManifestDraft{}.text()))->include_paths;
  EXPECT_THAT(paths, AllOf(Contains(folder.path().string()), Not(Contains((folder.path() / "nowhere").string()))));
}

TEST_F(TemplateSetTest, LoadingAgainReadsTheFileAnew) {
  TemplateSet templates;
  const TemplatePtr before = templates.load(write("mix.toml", ManifestDraft{}.text()));
  write("mix.cuh", "// changed\n");
  const TemplatePtr after = templates.load(folder.path() / "mix.toml");
  EXPECT_NE(before->digest.hex(), after->digest.hex());
  EXPECT_EQ(templates.find("mix_fast"), after);
  EXPECT_EQ(before->headers.at("mix.cuh"), "#pragma once\n");
}

TEST_F(TemplateSetTest, LoadingWhatIsNotThereNamesTheFile) {
  TemplateSet templates;
  EXPECT_THAT(message_of(ErrorCode::not_found, [&] { templates.load(folder.path() / "no.toml"); }),
              HasSubstr("no.toml"));
}

TEST_F(TemplateSetTest, AFailedLoadLeavesWhatWasThere) {
  TemplateSet templates;
  const TemplatePtr good = templates.load(write("mix.toml", ManifestDraft{}.text()));
  ManifestDraft bad;
  bad.fallback = "";
  EXPECT_THROW(templates.load(write("bad.toml", bad.text())), Error);
  EXPECT_EQ(templates.find("mix_fast"), good);
}

TEST_F(TemplateSetTest, ATemplateOfAnUnknownOpSaysWhichThereAre) {
  ManifestDraft draft = user_of_mix("lonely");
  draft.top = "op = \"gemn\"";
  TemplateSet templates;
  EXPECT_THAT(message_of(ErrorCode::invalid_manifest, [&] { templates.load(write("mix.toml", draft.text())); }),
              AllOf(HasSubstr("mix.toml: op: no op 'gemn'"), HasSubstr("did you mean 'gemm'?")));
}

TEST_F(TemplateSetTest, AnInlineOpCannotTakeTheNameOfABuiltInOne) {
  ManifestDraft draft;
  const std::string name = "name = \"mix\"";
  draft.op.replace(draft.op.find(name), name.size(), "name = \"gemm\"");
  TemplateSet templates;
  EXPECT_THAT(message_of(ErrorCode::invalid_manifest, [&] { templates.load(write("mix.toml", draft.text())); }),
              AllOf(HasSubstr("mix.toml: op.name"), HasSubstr("'gemm'"), HasSubstr("built in")));
  EXPECT_EQ(templates.find_op("gemm")->dims.at(2).name, "K");
}

}  // namespace
}  // namespace kiln
