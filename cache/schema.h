// The shape of the database and every statement that runs on it. Constants; thread-safe.
//
// The number of migrations applied is the file's `user_version`. A migration only ever appends: new tables, and new
// columns at the end of old ones. So a process reads a newer file by the columns it knows, and writes nothing to it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kiln::cache {

// "KILN", in the header of every database of ours.
inline constexpr std::int32_t kApplicationId = 0x4B494C4E;

// Each is run in one transaction and raises `user_version` by one.
std::span<const char* const> migrations();

// The `user_version` this build writes.
int schema_version();

namespace sql {

// Columns are read by position, in the order of CREATE TABLE.
extern const char* const kFindFact;
extern const char* const kPutFact;
extern const char* const kFindCubin;
extern const char* const kPutCubin;
extern const char* const kDeleteCubin;
extern const char* const kTouchCubin;
extern const char* const kCubinTotals;
extern const char* const kCubinsByAge;
extern const char* const kAllCubins;

extern const char* const kFindDecision;
extern const char* const kPutDecision;
extern const char* const kDecisionsOfOp;
extern const char* const kDecisionsOfOpAndClass;
extern const char* const kAllDecisions;

extern const char* const kFindTrial;
extern const char* const kPutTrial;
extern const char* const kTrialsOfProblem;
extern const char* const kTrialsOfTemplate;
extern const char* const kAllTrials;

extern const char* const kPutMiss;
extern const char* const kDeleteMiss;
extern const char* const kAllMisses;
extern const char* const kDeleteAnsweredMisses;

extern const char* const kCountDecisions;
extern const char* const kCountTrials;
extern const char* const kCountFailures;
extern const char* const kCountMisses;

}  // namespace sql
}  // namespace kiln::cache
