// The commands that answer without a GPU: listings, compile, predictive tuning, query and the cache's upkeep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "cache/gpu_profiles.h"
#include "kernel/space.h"
#include "kernel/template_set.h"
#include "runtime/store.h"
#include "tests/cli/run_kiln.h"

namespace kiln::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kProblem = "m=256,n=256,k=256,dtype=bf16";

Json parsed(const Ended& ended) {
  EXPECT_EQ(ended.code, 0) << ended.err;
  return Json::parse(ended.out, nullptr, false);
}

TEST(Answers, QueryOfAProfileNeedsNoGpuAndLeavesNoTrace) {
  const Machine machine;
  const Json answer = parsed(machine.kiln({"query", "--gpu", "h200", "--problem", kProblem, "--json"}));
  EXPECT_EQ(answer["op"], "gemm");
  EXPECT_FALSE(answer["template"].get<std::string>().empty());
  EXPECT_GT(answer["expected_us"].get<double>(), 0);
  EXPECT_FALSE(std::filesystem::exists(machine.database()));
}

TEST(Answers, ExplainSaysWhyBetterRungsDidNotAnswer) {
  const Machine machine;
  const Ended ended = machine.kiln({"query", "--gpu", "h200", "--problem", kProblem, "--explain"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("why not better"), HasSubstr("exact_measured"), HasSubstr("roofline")));
}

TEST(Answers, EveryProfileAnswers) {
  const Machine machine;
  const Ended devices = machine.kiln({"devices", "--json"});
  const Json listed = Json::parse(devices.out);
  ASSERT_GE(listed["profiles"].size(), 8U);
  for (const Json& profile : listed["profiles"]) {
    const Ended ended = machine.kiln({"query", "--gpu", profile["profile"], "--problem", kProblem});
    EXPECT_EQ(ended.code, 0) << profile["profile"] << ": " << ended.err;
  }
}

TEST(Answers, TemplatesAreListedByOp) {
  const Machine machine;
  const Json list = parsed(machine.kiln({"template", "list", "--json"}));
  std::vector<std::string> names;
  for (const Json& entry : list) names.push_back(entry["template"]);
  EXPECT_THAT(names, testing::IsSupersetOf({"reference_gemm", "simt_gemm", "sm80_gemm", "sm90_gemm"}));
}

TEST(Answers, AProblemIsNamedByWhatIsNotTheDefault) {
  const Machine machine;
  const auto named = [&machine](const std::string& op, const std::string& problem) {
    return parsed(machine.kiln({"query", "--gpu", "h200", "--op", op, "--problem", problem, "--json"}))["problem"];
  };
  EXPECT_EQ(named("gemm", "m=256,n=256,k=256,a=bf16"), "M=256,N=256,K=256,dtype=bf16");
  EXPECT_EQ(named("gemm", "m=256,n=256,k=256,dtype=tf32"), "M=256,N=256,K=256,dtype=tf32");
  EXPECT_EQ(named("gemm", "m=256,n=256,k=256,dtype=bf16,d=f32"), "M=256,N=256,K=256,dtype=bf16,d=f32");
  EXPECT_EQ(named("attention", "b=1,h=8,s_q=256,d=64,dtype=bf16,mask=causal"),
            "H=8,S_q=256,D=64,dtype=bf16,mask=causal");
}

TEST(Answers, ShowCountsTheSpaceBeforeAndAfterEachConstraint) {
  const Machine machine;
  const Json shown =
      parsed(machine.kiln({"template", "show", "sm80_gemm", "--gpu", "a100", "--problem", kProblem, "--json"}));
  double before = shown["raw_space"];
  ASSERT_FALSE(shown["steps"].empty());
  for (const Json& step : shown["steps"]) {
    EXPECT_EQ(step["before"].get<double>(), before);
    EXPECT_LE(step["after"].get<double>(), before);
    before = step["after"];
  }
  EXPECT_GT(before, 0);
}

TEST(Answers, CompileReportsResourcesAndWritesThePtxAndTheCubin) {
  const Machine machine;
  const auto ptx = machine.folder() / "kernel.ptx";
  const auto cubin = machine.folder() / "kernel.cubin";
  const Json report = parsed(machine.kiln({"compile", "simt_gemm", "--arch", "sm_80", "--problem", kProblem, "--ptx",
                                           ptx.string(), "--cubin", cubin.string(), "--json"}));
  EXPECT_EQ(report["target"], "sm_80");
  ASSERT_FALSE(report["kernels"].empty());
  EXPECT_GT(report["kernels"][0]["registers"].get<int>(), 0);
  EXPECT_EQ(report["kernels"][0]["spill_store_bytes"], 0);
  EXPECT_EQ(std::filesystem::file_size(cubin), report["cubin_bytes"].get<std::uintmax_t>());
  EXPECT_GT(std::filesystem::file_size(ptx), 0U);
}

TEST(Answers, CompileRefusesAnIllegalConfiguration) {
  const Machine machine;
  const Ended ended = machine.kiln({"compile", "sm80_gemm", "--arch", "sm_80", "--config", "STAGES=1000"});
  EXPECT_EQ(ended.code, 2) << ended.out;
  EXPECT_THAT(ended.err, HasSubstr("not legal"));
}

TEST(Answers, PredictiveTuningIsStoredAndAnswersLaterQueries) {
  const Machine machine;
  // A GPU that no measured preset answers for.
  const Json tuned =
      parsed(machine.kiln({"tune", "--gpu", "l40s", "--problem", kProblem, "--candidates", "3", "--json"}));
  ASSERT_EQ(tuned.size(), 1U);
  EXPECT_FALSE(tuned[0]["failed"]);
  EXPECT_FALSE(tuned[0]["measured"]);
  EXPECT_GT(tuned[0]["compiled"].get<int>(), 0);

  const Json answer = parsed(machine.kiln({"query", "--gpu", "l40s", "--problem", kProblem, "--json"}));
  EXPECT_EQ(answer["rung"], "predicted");
  EXPECT_EQ(answer["template"], tuned[0]["template"]);
  ASSERT_TRUE(answer.contains("decision"));

  const Json again =
      parsed(machine.kiln({"tune", "--gpu", "l40s", "--problem", kProblem, "--candidates", "3", "--json"}));
  EXPECT_TRUE(again[0]["from_store"]);
  EXPECT_EQ(again[0]["config"], tuned[0]["config"]);
}

TEST(Answers, AUserTemplateInAFolderIsTunedAndQueriedLikeABuiltInOne) {
  const Machine machine;
  const std::map<std::string, std::string> environment = {{"KILN_TEMPLATES", source_path("examples/rmsnorm").string()}};
  const std::vector<std::string> problem = {"--op",  "rmsnorm", "--problem", "rows=4096,cols=8192,dtype=bf16",
                                            "--gpu", "h200"};
  std::vector<std::string> tune = {"tune", "--candidates", "2", "--json"};
  tune.insert(tune.end(), problem.begin(), problem.end());
  const Json tuned = parsed(machine.kiln(tune, environment));
  ASSERT_EQ(tuned.size(), 1U);
  EXPECT_EQ(tuned[0]["template"], "rmsnorm");
  std::vector<std::string> query = {"query", "--json"};
  query.insert(query.end(), problem.begin(), problem.end());
  const Json answer = parsed(machine.kiln(query, environment));
  EXPECT_EQ(answer["template"], "rmsnorm");
  EXPECT_EQ(answer["rung"], "predicted");
}

TEST(Answers, ExportsTravelToAnotherMachine) {
  const Machine first;
  parsed(first.kiln({"tune", "--gpu", "h200", "--problem", kProblem, "--candidates", "2", "--json"}));
  const std::string file = (first.folder() / "results.json").string();
  EXPECT_EQ(parsed(first.kiln({"cache", "export", file, "--json"}))["decisions"], 1);

  const Machine second;
  EXPECT_EQ(parsed(second.kiln({"cache", "import", file, "--json"}))["decisions"]["added"], 1);
  EXPECT_EQ(parsed(second.kiln({"cache", "import", file, "--json"}))["decisions"]["kept"], 1);
  EXPECT_TRUE(parsed(second.kiln({"query", "--gpu", "h200", "--problem", kProblem, "--json"})).contains("decision"));
  EXPECT_EQ(parsed(second.kiln({"cache", "stats", "--json"}))["predicted_decisions"], 1);
  EXPECT_EQ(second.kiln({"cache", "verify"}).code, 0);
  EXPECT_EQ(second.kiln({"cache", "gc"}).code, 0);
}

constexpr const char* kRange = "m=1..8192,n=8192,k=8192,dtype=bf16";

TEST(Answers, ARangeIsQueriedAsADispatchTable) {
  const Machine machine;
  const Json table = parsed(machine.kiln({"query", "--gpu", "h200", "--problem", kRange, "--json"}));
  EXPECT_EQ(table["dim"], "M");
  std::int64_t next = 1;
  for (const Json& interval : table["intervals"]) {
    EXPECT_EQ(interval["first"].get<std::int64_t>(), next);
    next = interval["last"].get<std::int64_t>() + 1;
  }
  EXPECT_EQ(next, 8193);
  EXPECT_GE(table["kernels"].get<int>(), 2);
  EXPECT_LE(table["kernels"].get<std::size_t>(), table["intervals"].size());
  const Ended shown = machine.kiln({"query", "--gpu", "a100", "--problem", kRange});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("M=1..8192"), HasSubstr("–8192")));
}

TEST(Answers, ARangeIsTunedByPredictionAndThenAnsweredByTheStore) {
  const Machine machine;
  const std::vector<std::string> arguments = {
      "tune", "--gpu", "l40s", "--op", "rmsnorm", "--problem", "rows=1..64,cols=1024,dtype=bf16", "--json"};
  const std::map<std::string, std::string> environment = {{"KILN_TEMPLATES", source_path("examples/rmsnorm").string()}};
  const Json tuned = parsed(machine.kiln(arguments, environment));
  ASSERT_EQ(tuned.size(), 1U);
  EXPECT_FALSE(tuned[0]["failed"].get<bool>()) << tuned[0]["message"];
  EXPECT_FALSE(tuned[0]["measured"].get<bool>());
  EXPECT_EQ(tuned[0]["intervals"].back()["last"], 64);
  EXPECT_GE(tuned[0]["winning_kernels"].get<int>(), tuned[0]["kernels"].get<int>());
  const Json again = parsed(machine.kiln(arguments, environment));
  EXPECT_TRUE(again[0]["from_store"].get<bool>());
}

TEST(Answers, ARangeThatCannotBeIsAUsageError) {
  const Machine machine;
  const Ended ended = machine.kiln({"query", "--gpu", "h200", "--problem", "m=8..1,n=64,k=64,dtype=bf16"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("in order"));
}

// Trials as an H200 might have made them: each as long as the cost model says, half as much again where SPLIT is
// above 1.
void fill_with_trials(const std::filesystem::path& database) {
  const TemplateSet templates;
  const TemplatePtr t = templates.find("simt_gemm");
  const cuda::DeviceInfo gpu = *cache::gpu_profile("h200");
  const auto store = open_store({.path = database});
  const Problem problem = problem_from_text(*t->op, parse_problem_text("gemm", "m=512,n=512,k=512,dtype=f32"));
  const Space space = enumerate(*t, problem, gpu);
  for (std::size_t i = 0; i < space.configs.size(); i += 50) {
    Trial trial;
    trial.hardware_class = cuda::hardware_class(gpu);
    trial.problem = problem.canonical();
    trial.template_name = t->manifest.name;
    trial.template_digest = t->digest.hex();
    trial.config = space.configs[i];
    const double us = predicted_us(*t, problem, space.configs[i], gpu) * (space.configs[i].at("SPLIT") > 1 ? 1.5 : 1);
    trial.timing = Timing{.median_us = us, .min_us = us, .max_us = us, .spread = 0, .batches = 5};
    ASSERT_TRUE(store->put_trial(trial));
  }
}

TEST(Answers, ModelsAreReportedAndRefittedFromTheDatabase) {
  const Machine machine;
  fill_with_trials(machine.database());
  const Json report = parsed(machine.kiln({"model", "report", "--gpu", "h200", "--json"}));
  const Json& scores = report["templates"]["simt_gemm"];
  ASSERT_EQ(scores["problems"].size(), 1U);
  EXPECT_GT(scores["problems"][0]["measured"].get<int>(), 16);
  EXPECT_GT(scores["overall"]["spearman"].get<double>(), 0.5);
  EXPECT_LT(scores["overall"]["spearman"].get<double>(), 1);

  const auto manifest = machine.folder() / "simt_gemm.toml";
  std::filesystem::copy_file(source_path("templates/gemm/simt_gemm.toml"), manifest);
  const Json fit = parsed(machine.kiln(
      {"model", "refit", "--template", "simt_gemm", "--gpu", "h200", "--write", manifest.string(), "--json"}));
  EXPECT_LT(fit["loss"].get<double>(), fit["loss_before"].get<double>());
  EXPECT_GE(fit["after"]["overall"]["first_choice"].get<double>(),
            fit["before"]["overall"]["first_choice"].get<double>());
  std::ifstream stream(manifest);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Manifest written = read_manifest(text, manifest.string());
  for (const CostConstant& constant : written.cost_constants) {
    EXPECT_EQ(constant.value, fit["constants"][constant.name].get<std::int64_t>());
  }
}

TEST(Answers, AModelWithoutTrialsOrConstantsSaysWhatIsMissing) {
  const Machine machine;
  const Ended none = machine.kiln({"model", "report", "--gpu", "h200"});
  EXPECT_EQ(none.code, 4);
  EXPECT_THAT(none.err, HasSubstr("tune there first"));
  const Ended fixed_model = machine.kiln({"model", "refit", "--template", "reference_gemm", "--gpu", "h200"});
  EXPECT_EQ(fixed_model.code, 2);
  EXPECT_THAT(fixed_model.err, HasSubstr("cost.constants"));
  fill_with_trials(machine.database());
  const auto other = source_path("templates/gemm/sm80_gemm.toml").string();
  const Ended wrong_file =
      machine.kiln({"model", "refit", "--template", "simt_gemm", "--gpu", "h200", "--write", other});
  EXPECT_EQ(wrong_file.code, 2);
  EXPECT_THAT(wrong_file.err, HasSubstr("not of simt_gemm"));
}

TEST(Answers, AProblemInShortSaysWhatDoesNotFollowFromTheDefaults) {
  const Machine machine;
  const std::pair<const char*, const char*> problems[] = {
      {"gemm m=64,n=128,k=256,dtype=bf16,lda=256,batch=1", "M=64,N=128,K=256,dtype=bf16"},
      {"gemm m=64,n=128,k=256,dtype=bf16,batch=2,lda=512,stride_b=0",
       "M=64,N=128,K=256,batch=2,lda=512,stride_b=0,dtype=bf16"},
      {"gemm m=64,n=128,k=256,a=bf16,b=bf16,d=f32", "M=64,N=128,K=256,dtype=bf16,d=f32"},
      {"gemm m=64,n=128,k=256,dtype=f16,a_layout=col,bias=n", "M=64,N=128,K=256,dtype=f16,a_layout=col,bias=n"},
      {"attention b=4,h=16,h_kv=16,s_q=4096,d=128,dtype=bf16,mask=causal",
       "B=4,H=16,S_q=4096,D=128,dtype=bf16,mask=causal"},
      {"attention b=4,h=16,h_kv=4,s_q=100,s_k=300,d=192,d_v=128,dtype=bf16,o=f32,mask=window,w=7",
       "B=4,H=16,H_kv=4,S_q=100,S_k=300,D=192,D_v=128,W=7,dtype=bf16,o=f32,mask=window"},
      {"attention b=2,h=16,s_q=100,d=64,dtype=f16,q_row=3072,q_head=64", "B=2,H=16,S_q=100,D=64,q_row=3072,dtype=f16"}};
  for (const auto& [given, shortened] : problems) {
    const std::string text = given;
    const auto space = text.find(' ');
    const Ended ended =
        machine.kiln({"query", "--gpu", "h200", "--op", text.substr(0, space), "--problem", text.substr(space + 1)});
    EXPECT_THAT(ended.out, HasSubstr(text.substr(0, space + 1) + shortened + "\n")) << ended.err;
  }
}

TEST(Answers, ASearchIsReplayedOverStoredTrials) {
  const Machine machine;
  EXPECT_EQ(machine.kiln({"model", "replay", "--gpu", "h200"}).code, 4) << "no trials yet";
  fill_with_trials(machine.database());
  const Json replay = parsed(machine.kiln({"model", "replay", "--gpu", "h200", "--known", "20", "--json"}));
  ASSERT_EQ(replay["rows"].size(), 1U);
  const Json& row = replay["rows"][0];
  EXPECT_GT(row["known"].get<int>(), 20);
  EXPECT_EQ(row["tried"], 24);
  EXPECT_LE(row["found_of_best"].get<double>(), 1);
  EXPECT_EQ(machine.kiln({"model", "replay", "--gpu", "h200", "--op", "gemv"}).code, 4);
}

TEST(Answers, AStudyNeedsTheGpu) {
  const Machine machine;
  const std::string suite = source_path("bench/suites/search_study.toml").string();
  EXPECT_EQ(machine.kiln({"model", "study", "--suite", suite, "--gpu", "h200"}).code, 3);
}

TEST(Answers, ADamagedDatabaseNeverFailsAQuery) {
  const Machine machine;
  std::ofstream(machine.database()) << "this is no database";
  const Ended ended = machine.kiln({"query", "--gpu", "h200", "--problem", kProblem});
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST(Answers, TheShippedSuitesCanBeRead) {
  const Machine machine;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("bench/suites"))) {
    // Without a GPU bench gets as far as asking for one, which is after the suite was read.
    const Ended ended = machine.kiln({"bench", "--suite", entry.path().string()});
    EXPECT_EQ(ended.code, 3) << entry.path() << ": " << ended.err;
  }
}

}  // namespace
}  // namespace kiln::test
