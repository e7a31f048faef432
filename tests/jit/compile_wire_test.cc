#include "jit/compile_wire.h"

#include <gtest/gtest.h>

#include "kiln/error.h"

namespace kiln::jit {
namespace {

const std::string kBytes("\x00\xff\xfe not UTF-8 \n", 16);

// As it comes out of the channel at the other end.
Json through_cbor(const Json& json) { return Json::from_cbor(Json::to_cbor(json)); }

TEST(CompileWire, ARequestArrivesWhole) {
  CompileRequest sent;
  sent.source = "source " + kBytes;
  sent.file_name = "name.cu";
  sent.headers = {{"a.cuh", "text"}, {"dir/b.cuh", kBytes}};
  sent.name_expressions = {"kernel<1>", "kernel<2>"};
  sent.arch = "sm_90a";
  sent.options = {"-lineinfo"};
  sent.include_paths = {"/usr/include"};
  const CompileRequest received = request_from_json(through_cbor(to_json(sent)));
  EXPECT_EQ(received.source, sent.source);
  EXPECT_EQ(received.file_name, sent.file_name);
  EXPECT_EQ(received.headers, sent.headers);
  EXPECT_EQ(received.name_expressions, sent.name_expressions);
  EXPECT_EQ(received.arch, sent.arch);
  EXPECT_EQ(received.options, sent.options);
  EXPECT_EQ(received.include_paths, sent.include_paths);
}

TEST(CompileWire, AUnitArrivesWhole) {
  CompiledUnit sent;
  sent.cubin = kBytes;
  sent.ptx = ".version 9.0";
  sent.kernels = {KernelResources{.name_expression = "k<1>",
                                  .symbol = "_Z1k",
                                  .registers = 1,
                                  .spill_store_bytes = 2,
                                  .spill_load_bytes = 3,
                                  .stack_bytes = 4,
                                  .static_shared_bytes = 5,
                                  .constant_bytes = 6,
                                  .barriers = 7}};
  sent.warnings = {"C7510"};
  sent.log = "log";
  sent.milliseconds = 12.5;
  const CompileOutcome outcome = outcome_from_json(through_cbor(to_json(CompileOutcome(sent))));
  const auto& received = std::get<CompiledUnit>(outcome);
  EXPECT_EQ(received.cubin, sent.cubin);
  EXPECT_EQ(received.ptx, sent.ptx);
  EXPECT_EQ(received.warnings, sent.warnings);
  EXPECT_EQ(received.log, sent.log);
  EXPECT_EQ(received.milliseconds, sent.milliseconds);
  ASSERT_EQ(received.kernels.size(), 1U);
  const KernelResources& kernel = received.kernels[0];
  EXPECT_EQ(kernel.name_expression, "k<1>");
  EXPECT_EQ(kernel.symbol, "_Z1k");
  EXPECT_EQ(kernel.registers, 1);
  EXPECT_EQ(kernel.spill_store_bytes, 2);
  EXPECT_EQ(kernel.spill_load_bytes, 3);
  EXPECT_EQ(kernel.stack_bytes, 4);
  EXPECT_EQ(kernel.static_shared_bytes, 5);
  EXPECT_EQ(kernel.constant_bytes, 6);
  EXPECT_EQ(kernel.barriers, 7);
}

TEST(CompileWire, AFailureArrivesWhole) {
  const CompileOutcome outcome =
      outcome_from_json(through_cbor(to_json(CompileOutcome(CompileFailure{"why", kBytes}))));
  EXPECT_EQ(std::get<CompileFailure>(outcome).message, "why");
  EXPECT_EQ(std::get<CompileFailure>(outcome).log, kBytes);
}

TEST(CompileWire, WhatIsNoMessageIsAnError) {
  for (const Json& json : {Json(), Json(1), Json("text"), Json::array(), Json::object(), Json{{"unit", 1}},
                           Json{{"failure", {{"message", "text, not bytes"}, {"log", 0}}}}}) {
    EXPECT_THROW(request_from_json(json), Error) << json;
    EXPECT_THROW(outcome_from_json(json), Error) << json;
  }
}

}  // namespace
}  // namespace kiln::jit
