#!/usr/bin/env bash
# One round on a GPU machine, from the folder that `./dev portable` made: tests, compute-sanitizer, tuning, benchmarks.
#
#   portable/bench/gpu_round.sh OUT_DIR [PART…]
#
# Parts, in this order when none is named: devices tests random sanitize tune bench overhead compile query; and, only when
# named, study (eight minutes of searching, then the cost models' scores), torch (attention suites beside PyTorch's backends)
# and error (attention's error on random problems against PyTorch's). Each has a time limit of its own and a log in OUT_DIR;
# a part that fails or cannot run says so at the end, and the exit status is then 1.
# LIMIT_<PART> (seconds) changes a limit, SUITES the suites ("gemm_small gemm_llm"), PEERS what bench compares with (empty:
# nothing), TEMPLATE the only template that tune, bench and torch consider, BUDGET the tuning budget of each suite, CANDIDATES
# how many a problem's search measures, PASSES how often bench goes through a suite, ROUNDS how often torch times Kiln and
# its peers in turn, TESTS, RANDOM_TESTS and SANITIZED the GoogleTest filters of the tests, of those with many random problems
# (which share the GPU, so `tests` leaves them out) and of those that run under compute-sanitizer.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly here
[[ $# -ge 1 ]] || {
  echo "usage: $0 OUT_DIR [PART…]" >&2
  exit 2
}
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 2
readonly out
shift
parts=("$@")
((${#parts[@]})) || parts=(devices tests random sanitize tune bench overhead compile query)

readonly suites=${SUITES:-gemm_small}
readonly peers=${PEERS-cublaslt_default cublaslt_best}
readonly budget=${BUDGET:-240s}
readonly candidates=${CANDIDATES:-24}
readonly passes=${PASSES:-3}
readonly rounds=${ROUNDS:-3}
readonly template=${TEMPLATE:-}
readonly random=${RANDOM_TESTS:-*RandomProblems*}
readonly tests=${TESTS:--$random}
readonly sanitized=${SANITIZED:-*Small*}
export KILN_CACHE=${KILN_CACHE:-$out/kiln.db}
commit=$(cat "$here/COMMIT" 2>/dev/null || echo unknown)
readonly commit
summary=()
failed=0

# One line of the summary.
note() { summary+=("$(printf '%-10s %-8s %s' "$1" "$2" "$3")"); }

# run PART LIMIT COMMAND…: into PART.log, by the clock. The last line of the log is the summary's.
run() {
  local part=$1 limit=$2 start=$SECONDS code=0
  shift 2
  local override=LIMIT_${part^^}
  limit=${!override:-$limit}
  timeout --kill-after=10 "$limit" "$@" >"$out/$part.log" 2>&1 || code=$?
  local took="$((SECONDS - start)) s" last
  last=$(grep -v '^[[:space:]]*$' "$out/$part.log" | tail -n 1 | cut -c 1-160)
  case $code in
    0) note "$part" ok "$took  $last" ;;
    124 | 137)
      note "$part" TIMEOUT "after $limit s; see $part.log: $last"
      failed=1
      ;;
    *)
      note "$part" "FAILED" "exit $code, $took; see $part.log: $last"
      failed=1
      ;;
  esac
  return "$code"
}

gpu_tests() {
  local code=0
  (cd "$here" && bin/gpu_tests --gtest_brief=1 --gtest_filter="$tests") 2>&1 | tee "$out/tests.part" || code=1
  # A machine that should have a GPU and shows none must not look like success.
  grep -q 'PASSED.* 0 tests' "$out/tests.part" && {
    echo "no GPU test ran: all skipped themselves"
    code=1
  }
  rm -f "$out/tests.part"
  return "$code"
}

# Most of their time is the compiler's and the host's, so several processes do them side by side.
random_tests() {
  local shards=7 shard code=0 pids=()
  for ((shard = 0; shard < shards; ++shard)); do
    (cd "$here" && GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
      bin/gpu_tests --gtest_brief=1 --gtest_filter="$random") >"$out/random.$shard" 2>&1 &
    pids+=($!)
  done
  for ((shard = 0; shard < shards; ++shard)); do
    wait "${pids[shard]}" || code=1
    cat "$out/random.$shard"
    # A machine that should have a GPU and shows none must not look like success.
    grep -q 'PASSED.* 0 tests' "$out/random.$shard" && code=1
  done
  rm -f "$out"/random.?
  return "$code"
}

find_sanitizer() {
  command -v compute-sanitizer && return
  local candidate
  for candidate in "${CUDA_HOME:-/nonexistent}"/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer \
    /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    [[ -x $candidate ]] && echo "$candidate" && return
  done
  return 1
}

# Those of the GPU tests that are quick enough, under each tool; the tools run side by side. Only the test itself is looked
# at: its compile workers use no GPU, and the tools' launcher has crashed while it followed a dozen of them at once.
sanitize() {
  local tool sanitizer=$1 code=0 pids=() tools=(memcheck racecheck synccheck)
  "$here/bin/gpu_tests" --gtest_list_tests --gtest_filter="$sanitized" 2>/dev/null | grep -q '^ ' || {
    echo "no GPU test matches $sanitized"
    return 1
  }
  for tool in "${tools[@]}"; do
    # Few and small problems: a sanitizer makes a kernel hundreds of times slower.
    KILN_TEST_PROBLEMS=${SANITIZED_PROBLEMS:-5} KILN_TEST_MAX_EXTENT=${SANITIZED_MAX_EXTENT:-150} \
      "$sanitizer" --tool "$tool" --target-processes application-only --error-exitcode 9 --print-limit 20 "$here/bin/gpu_tests" \
      --gtest_filter="$sanitized" --gtest_brief=1 >"$out/sanitize.$tool" 2>&1 &
    pids+=($!)
  done
  for tool in "${tools[@]}"; do
    wait "${pids[0]}" || code=1
    pids=("${pids[@]:1}")
    echo "== $tool"
    cat "$out/sanitize.$tool"
    rm -f "$out/sanitize.$tool"
  done
  return "$code"
}

tune_suites() {
  local suite code=0 only=(${template:+--template "$template"})
  for suite in $suites; do
    echo "== $suite"
    "$here/bin/kiln" tune --suite "$here/bench/suites/$suite.toml" --budget "$budget" --candidates "$candidates" "${only[@]}" ||
      code=$?
  done
  echo "== again, wholly from the database"
  for suite in $suites; do
    "$here/bin/kiln" tune --suite "$here/bench/suites/$suite.toml" --budget 60s "${only[@]}" || code=$?
  done
  "$here/bin/kiln" cache export "$out/results.json" || code=$?
  return "$code"
}

# What the exhaustive searches measure goes into a database of its own, for `kiln model refit` afterwards.
study() {
  local code=0
  "$here/bin/kiln" model study --suite "$here/bench/suites/search_study.toml" --budget "${STUDY_BUDGET:-470s}" \
    --cache "$out/study.db" --commit "$commit" --out "$out/search_study.json" || code=$?
  "$here/bin/kiln" model report --cache "$out/study.db" --gpu 0 || code=$?
  return "$code"
}

bench_suites() {
  local suite peer flags=(${template:+--template "$template"}) code=0
  for peer in $peers; do flags+=(--peer "$peer"); done
  for suite in $suites; do
    "$here/bin/kiln" bench --suite "$here/bench/suites/$suite.toml" "${flags[@]}" \
      --passes "$passes" --commit "$commit" --out "$out/$suite.json" || code=$?
  done
  return "$code"
}

torch_suites() {
  local suite code=0 only=(${template:+--template "$template"})
  for suite in $suites; do
    python3 "$here/bench/peers/attention_torch.py" --kiln "$here/bin/kiln" --suite "$here/bench/suites/$suite.toml" \
      --commit "$commit" --out "$out/$suite.json" --rounds "$rounds" "${only[@]}" || code=$?
  done
  return "$code"
}

benchmark() {
  "$here/bin/$1" --benchmark_out="$out/$1.json" --benchmark_out_format=json "${@:2}" || return
  # Where the program lay on that machine is nobody's business.
  sed -i 's|"executable": ".*/|"executable": "|' "$out/$1.json"
  # Google Benchmark ends well even when every case was skipped.
  ! grep -q '"error_occurred": true' "$out/$1.json"
}

# Functions, run under `timeout`, need a shell of their own.
export here out suites peers budget candidates passes rounds template tests random sanitized commit
export -f gpu_tests random_tests sanitize tune_suites bench_suites study torch_suites benchmark
in_shell() { printf '%s\n' bash -c 'set -uo pipefail; "$@"' bash "$@"; }
call() {
  local part=$1 limit=$2 words
  shift 2
  mapfile -t words < <(in_shell "$@")
  run "$part" "$limit" "${words[@]}"
}

for part in "${parts[@]}"; do
  case $part in
    devices) run devices 60 "$here/bin/kiln" devices ;;
    tests) call tests 420 gpu_tests ;;
    random) call random 420 random_tests ;;
    sanitize)
      if sanitizer=$(find_sanitizer); then
        call sanitize 540 sanitize "$sanitizer"
      else
        note sanitize SKIPPED "compute-sanitizer is not on this machine (PATH, CUDA_HOME, /usr/local/cuda*)"
        failed=1
      fi
      ;;
    tune) call tune 560 tune_suites ;;
    bench) call bench 420 bench_suites ;;
    study) call study 590 study ;;
    torch) call torch 580 torch_suites ;;
    error)
      run error 420 python3 "$here/bench/peers/attention_error.py" --commit "$commit" --out "$out/attention_error.json"
      ;;
    overhead) call overhead 120 benchmark launch_overhead --benchmark_enable_random_interleaving=true ;;
    compile) call compile 240 benchmark compile_speed ;;
    query) call query 60 benchmark query_latency ;;
    *)
      note "$part" UNKNOWN "parts are devices tests random sanitize tune bench study torch error overhead compile query"
      failed=1
      ;;
  esac
done

echo
[[ -s $out/tune.log ]] && sed -n '/^problem/,$p' "$out/tune.log" | head -n 60
[[ -s $out/bench.log ]] && tail -n 60 "$out/bench.log"
[[ -s $out/torch.log ]] && tail -n 60 "$out/torch.log"
[[ -s $out/error.log ]] && tail -n 60 "$out/error.log"
[[ -s $out/overhead.log ]] && grep -E '_median|error' "$out/overhead.log"
[[ -s $out/compile.log ]] && grep -E '^[A-Z][A-Za-z0-9]+/' "$out/compile.log"
[[ -s $out/query.log ]] && grep -E '^(Query|Version)' "$out/query.log"
echo
printf '%s\n' "${summary[@]}"
exit "$failed"
