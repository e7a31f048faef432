// What every command does with arguments that are wrong, and which exit code stands for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run_kiln.h"

namespace kiln::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Wrong {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> said;  // on stderr
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

class WrongArguments : public testing::TestWithParam<Wrong> {};

TEST_P(WrongArguments, AreNamedWithTheirCure) {
  const Machine machine;
  const Ended ended = machine.kiln(GetParam().arguments);
  EXPECT_EQ(ended.code, GetParam().code) << ended.err;
  for (const std::string& text : GetParam().said) EXPECT_THAT(ended.err, HasSubstr(text));
  EXPECT_EQ(ended.out, "");
}

const std::vector<std::string> kProblem = {"--problem", "m=64,n=64,k=64,dtype=bf16"};

std::vector<std::string> with_problem(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kProblem.begin(), kProblem.end());
  return arguments;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, WrongArguments,
    testing::Values(
        Wrong{"Nothing", {}, 2, {"usage: kiln COMMAND"}},
        Wrong{"UnknownCommand", {"tun"}, 2, {"no command 'tun'", "did you mean 'tune'"}},
        Wrong{"UnknownSubcommand", {"cache", "stat"}, 2, {"no command 'stat'", "stats"}},
        Wrong{"SubcommandMissing", {"template"}, 2, {"usage: kiln template COMMAND"}},
        Wrong{"UnknownOption", with_problem({"query", "--gpus", "h200"}), 2, {"--gpus", "did you mean '--gpu'"}},
        Wrong{"AbbreviatedOption", with_problem({"query", "--expl"}), 2, {"there is no option '--expl'"}},
        Wrong{"OptionWithoutValue", {"query", "--problem"}, 2, {"problem"}},
        Wrong{"PositionalWhereNoneIsTaken", {"query", "m=64"}, 2, {"only options are expected here"}},
        Wrong{"ProblemMissing", {"query", "--gpu", "h200"}, 2, {"--problem is missing"}},
        Wrong{"UnreadableProblem", {"query", "--gpu", "h200", "--problem", "m64"}, 2, {"m64"}},
        Wrong{"UnknownField", {"query", "--gpu", "h200", "--problem", "m=64,n=64,k=64,q=1"}, 2, {"'q'", "it knows"}},
        Wrong{
            "NegativeExtent", {"query", "--gpu", "h200", "--problem", "m=-1,n=64,k=64,dtype=bf16"}, 2, {"at least 0"}},
        Wrong{"ExtentMissing", {"query", "--gpu", "h200", "--problem", "m=64,n=64,dtype=bf16"}, 2, {"needs dim 'K'"}},
        Wrong{
            "UnknownDtype", {"query", "--gpu", "h200", "--problem", "m=64,n=64,k=64,dtype=bf17"}, 2, {"bf17", "bf16"}},
        Wrong{"ShortLeadingDimension",
              {"query", "--gpu", "h200", "--problem", "m=64,n=64,k=64,dtype=bf16,lda=8"},
              2,
              {"leading dimension of A"}},
        Wrong{"UnknownOp", {"query", "--gpu", "h200", "--op", "gem", "--problem", "m=1"}, 4, {"no op 'gem'", "gemm"}},
        Wrong{"UnknownTemplate", with_problem({"query", "--gpu", "h200", "--template", "sm91_gemm"}), 4, {"sm91_gemm"}},
        Wrong{"UnknownProfile", with_problem({"query", "--gpu", "h2000"}), 3, {"h2000", "h200"}},
        Wrong{"NoGpu", with_problem({"query"}), 3, {"--gpu", "h200"}},
        Wrong{"NoGpuWithThatIndex", with_problem({"query", "--gpu", "7"}), 3, {"h200"}},
        Wrong{"UnknownLogLevel", with_problem({"query", "--gpu", "h200", "--log", "loud"}), 2, {"loud", "warning"}},
        Wrong{"TuneNothing", {"tune", "--gpu", "h200"}, 2, {"--suite FILE", "--problem FIELDS"}},
        Wrong{"TuneBudgetUnreadable",
              with_problem({"tune", "--gpu", "h200", "--budget", "soon"}),
              2,
              {"--budget", "90s"}},
        Wrong{
            "TuneBudgetZero", with_problem({"tune", "--gpu", "h200", "--budget", "0"}), 2, {"--budget", "above zero"}},
        Wrong{"TuneSearchUnknown", with_problem({"tune", "--gpu", "h200", "--search", "best"}), 2, {"exhaustive"}},
        Wrong{
            "TuneContradiction", with_problem({"tune", "--gpu", "h200", "--resume", "--no-resume"}), 2, {"contradict"}},
        Wrong{"TuneNoCandidates", with_problem({"tune", "--gpu", "h200", "--candidates", "0"}), 2, {"at least 1"}},
        Wrong{"TuneTwoSources", with_problem({"tune", "--gpu", "h200", "--suite", "x.toml"}), 2, {"give one"}},
        Wrong{"SuiteMissing", {"tune", "--gpu", "h200", "--suite", "nowhere.toml"}, 4, {"nowhere.toml"}},
        Wrong{"BenchWithoutSuite", {"bench"}, 2, {"--suite is missing"}},
        Wrong{"BenchTooFewRounds", {"bench", "--suite", "x.toml", "--rounds", "2"}, 2, {"5 or more"}},
        Wrong{"BenchNoPass", {"bench", "--suite", "x.toml", "--passes", "0"}, 2, {"--passes", "at least 1"}},
        Wrong{"ReplayWithoutTrials", {"model", "replay", "--gpu", "h200"}, 4, {"no problem of gemm", "model study"}},
        Wrong{"ReplayUnknownOp", {"model", "replay", "--gpu", "h200", "--op", "gemv"}, 4, {"no op 'gemv'"}},
        Wrong{"CompileNothing", {"compile"}, 2, {"name one template"}},
        Wrong{"CompileUnknownTemplate", {"compile", "nothing", "--arch", "sm_90a"}, 4, {"simt_gemm"}},
        Wrong{"CompileBadTarget", {"compile", "simt_gemm", "--arch", "hopper"}, 2, {"sm_90a"}},
        Wrong{"CompileWrongTarget", {"compile", "sm90_gemm", "--arch", "sm_80"}, 1, {"it is for sm_90a"}},
        Wrong{"CompileTwoTargets", {"compile", "simt_gemm", "--arch", "sm_80", "--gpu", "h200"}, 2, {"give one"}},
        Wrong{"CompileUnknownParameter",
              {"compile", "simt_gemm", "--arch", "sm_80", "--config", "BQ=1"},
              2,
              {"no parameter 'BQ'", "it has"}},
        Wrong{"CompileUnreadableConfig", {"compile", "simt_gemm", "--arch", "sm_80", "--config", "BM"}, 2, {"BM"}},
        Wrong{"CacheFileMissing", {"cache", "stats"}, 4, {"kiln.db"}},
        Wrong{"GcSizeUnreadable", {"cache", "gc", "--max-cubin-bytes", "lots"}, 2, {"lots", "512M"}},
        Wrong{"ImportNothing", {"cache", "import"}, 2, {"name the files"}},
        Wrong{"ImportMissingFile", {"cache", "import", "nowhere.json"}, 4, {"nowhere.json"}},
        Wrong{"MergeWithoutTarget", {"cache", "merge", "a.json"}, 2, {"--into is missing"}},
        Wrong{"CheckNothing", {"template", "check"}, 2, {"name the manifests"}}),
    [](const auto& test) { return test.param.name; });

TEST(Cli, HelpGoesToStdoutAndSucceeds) {
  const Machine machine;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"devices", "--help"},
                                             {"template", "--help"},
                                             {"template", "list", "--help"},
                                             {"template", "show", "--help"},
                                             {"template", "check", "--help"},
                                             {"compile", "--help"},
                                             {"tune", "--help"},
                                             {"query", "--help"},
                                             {"bench", "--help"},
                                             {"cache", "--help"},
                                             {"cache", "gc", "--help"}}) {
    const Ended ended = machine.kiln(arguments);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("usage: kiln"));
    EXPECT_EQ(ended.err, "");
  }
}

TEST(Cli, HelpersAreNotListed) {
  const Machine machine;
  const Ended ended = machine.kiln({"--help"});
  EXPECT_THAT(ended.out, HasSubstr("query"));
  EXPECT_THAT(ended.out, testing::Not(HasSubstr("worker")));
}

TEST(Cli, DevicesExitsWithThreeWhereThereIsNoGpuAndStillListsProfiles) {
  const Machine machine;
  const Ended ended = machine.kiln({"devices"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.out, AllOf(HasSubstr("No GPU here"), HasSubstr("h200"), HasSubstr("sm_90a")));
}

TEST(Cli, AWrongConfigFileIsNamed) {
  const Machine machine;
  std::filesystem::create_directories(machine.folder() / ".config/kiln");
  std::ofstream(machine.folder() / ".config/kiln/kiln.toml") << "cach = \"x\"\n";
  const Ended ended = machine.kiln({"template", "list"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("kiln.toml"), HasSubstr("cach")));
}

TEST(Cli, NoHomeMeansNoDatabaseAndNoFailure) {
  const Machine machine;
  const Ended ended = machine.kiln({"query", "--gpu", "h200", "--problem", "m=64,n=64,k=64,dtype=bf16"},
                                   {{"HOME", ""}, {"KILN_CACHE", ""}});
  EXPECT_EQ(ended.code, 0) << ended.err;
}

}  // namespace
}  // namespace kiln::test
