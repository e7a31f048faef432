#include "runtime/gemm_canonical.h"

#include <vector>

#include <gtest/gtest.h>

#include "kernel/op_spec.h"
#include "kernel/template_set.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

Problem completed(const Gemm& gemm) { return complete(*TemplateSet().find_op("gemm"), to_problem(gemm)); }

TEST(GemmCanonical, ARowMajorDIsSolvedAsItStands) {
  const Gemm gemm{.m = 3, .n = 5, .k = 7, .a = bf16, .b = bf16, .d = f32};
  const CanonicalGemm form = canonical(gemm);
  EXPECT_FALSE(form.swapped);
  EXPECT_EQ(form.dynamic_dim, "");
  EXPECT_EQ(completed(gemm).canonical(),
            "gemm K=7 M=3 N=5 batch=1 lda=7 ldb=7 ldd=5 stride_a=21 stride_b=35 stride_d=15 | a=bf16 b=bf16 d=f32 | "
            "a_layout=row b_layout=col | align_a=16 align_b=16 align_d=16");
}

TEST(GemmCanonical, AColumnMajorDTradesAAndB) {
  const Gemm gemm{.m = 3, .n = 5, .k = 7, .a = bf16, .b = f16, .d = f32, .d_layout = Layout::col, .alignment = 4};
  EXPECT_TRUE(canonical(gemm).swapped);
  const Problem problem = to_problem(gemm);
  EXPECT_EQ(problem.dims.at("M"), 5);
  EXPECT_EQ(problem.dims.at("N"), 3);
  EXPECT_EQ(problem.dtypes.at("a"), f16);
  EXPECT_EQ(problem.dtypes.at("b"), bf16);
  // Bᵀ of a column-major B is row-major, and Aᵀ of a row-major A column-major.
  EXPECT_EQ(problem.choices.at("a_layout"), "row");
  EXPECT_EQ(problem.choices.at("b_layout"), "col");
  EXPECT_EQ(problem.alignments.at("d"), 4);
}

TEST(GemmCanonical, AnEpilogueFollowsTheLayoutOfD) {
  Gemm gemm{.m = 3, .n = 5, .k = 7, .addend = Addend::residual, .bias = Bias::n, .activation = Activation::silu};
  gemm.ldc = 9;
  gemm.c = f32;
  EXPECT_EQ(completed(gemm).canonical(),
            "gemm K=7 M=3 N=5 batch=1 lda=7 ldb=7 ldc=9 ldd=5 stride_a=21 stride_b=35 stride_c=27 stride_d=15 | a=bf16 "
            "b=bf16 c=f32 d=bf16 | a_layout=row activation=silu addend=residual b_layout=col bias=n | align_a=16 "
            "align_b=16 align_bias=16 align_c=16 align_d=16");
  gemm.d_layout = Layout::col;
  const Problem problem = completed(gemm);
  EXPECT_EQ(problem.choices.at("bias"), "m");  // a column of D is a row of what is solved
  EXPECT_EQ(problem.dims.at("ldc"), 9);
  EXPECT_EQ(problem.dims.at("stride_c"), 9 * 5);
  gemm.bias = Bias::m;
  EXPECT_EQ(completed(gemm).choices.at("bias"), "n");
}

TEST(GemmCanonical, AColumnMajorDHasNoColumnsToPair) {
  const Gemm gemm{.m = 3, .n = 6, .k = 7, .d_layout = Layout::col, .activation = Activation::swiglu};
  EXPECT_NE(message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(to_problem(gemm)); }).find("swiglu"),
            std::string::npos);
}

TEST(GemmCanonical, ABoundIsTheDimItBecomes) {
  EXPECT_EQ(canonical({.m = up_to(64), .n = 5, .k = 7}).dynamic_dim, "M");
  EXPECT_EQ(canonical({.m = up_to(64), .n = 5, .k = 7}).problem.dims.at("M"), 64);
  const CanonicalGemm swapped = canonical({.m = up_to(64), .n = 5, .k = 7, .d_layout = Layout::col});
  EXPECT_EQ(swapped.dynamic_dim, "N");
  EXPECT_EQ(swapped.problem.dims.at("N"), 64);
}

TEST(GemmCanonical, ABoundAndAnExactExtentAreDifferentGemms) {
  EXPECT_FALSE((Gemm{.m = 64, .n = 5, .k = 7} == Gemm{.m = up_to(64), .n = 5, .k = 7}));
  EXPECT_TRUE((Gemm{.m = 64, .n = 5, .k = 7} == Gemm{.m = 64, .n = 5, .k = 7}));
}

TEST(GemmCanonical, WrongExtentsAndStridesAreRefusedWhenCompleted) {
  const auto refused = [](const Gemm& gemm) {
    return message_of(ErrorCode::invalid_argument, [&] { static_cast<void>(completed(gemm)); });
  };
  EXPECT_NE(refused({.m = -1, .n = 5, .k = 7}).find("M is -1"), std::string::npos);
  EXPECT_NE(refused({.m = 3, .n = 5, .k = 7, .lda = 6}).find("lda=6"), std::string::npos);
  EXPECT_NE(refused({.m = 3, .n = 5, .k = 7, .alignment = 3}).find("alignment of a is 3"), std::string::npos);
  EXPECT_NE(refused({.m = 3, .n = 5, .k = 7, .a = DType::i8, .b = DType::i8}).find("dtype a is i8"), std::string::npos);
}

// Where element (row, column) of matrix `batch` stands.
std::size_t at(Layout layout, std::int64_t ld, std::int64_t stride, std::int64_t batch, std::int64_t row,
               std::int64_t col) {
  return static_cast<std::size_t>(batch * stride + (layout == Layout::row ? row * ld + col : col * ld + row));
}

Layout layout_of(const Problem& problem, const char* choice) {
  return problem.choices.at(choice) == "row" ? Layout::row : Layout::col;
}

// The typed GEMM and its canonical problem, each computed from what its strides say, must write the same memory.
void expect_same_product(const Gemm& g) {
  const CanonicalGemm form = canonical(g);
  const Problem p = complete(*TemplateSet().find_op("gemm"), form.problem);
  const auto dim = [&p](const char* name) { return p.dims.at(name); };
  std::vector<std::int64_t> a(2000), b(2000), typed(2000), solved(2000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int64_t>(i * 7 % 31);
    b[i] = static_cast<std::int64_t>(i * 5 % 29);
  }
  const std::int64_t m = g.m.value;
  for (std::int64_t batch = 0; batch < g.batch; ++batch) {
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t col = 0; col < g.n; ++col) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
          sum += a.at(at(g.a_layout, g.lda, g.stride_a, batch, row, k)) *
                 b.at(at(g.b_layout, g.ldb, g.stride_b, batch, k, col));
        }
        typed.at(at(g.d_layout, g.ldd, g.stride_d, batch, row, col)) = sum;
      }
    }
  }
  const std::vector<std::int64_t>& left = form.swapped ? b : a;
  const std::vector<std::int64_t>& right = form.swapped ? a : b;
  const Layout a_layout = layout_of(p, "a_layout");
  const Layout b_layout = layout_of(p, "b_layout");
  for (std::int64_t batch = 0; batch < dim("batch"); ++batch) {
    for (std::int64_t row = 0; row < dim("M"); ++row) {
      for (std::int64_t col = 0; col < dim("N"); ++col) {
        std::int64_t sum = 0;
        for (std::int64_t k = 0; k < dim("K"); ++k) {
          sum += left.at(at(a_layout, dim("lda"), dim("stride_a"), batch, row, k)) *
                 right.at(at(b_layout, dim("ldb"), dim("stride_b"), batch, k, col));
        }
        solved.at(at(Layout::row, dim("ldd"), dim("stride_d"), batch, row, col)) = sum;
      }
    }
  }
  EXPECT_EQ(typed, solved);
}

TEST(GemmCanonical, EveryLayoutGivesTheSameProductInTheSamePlaces) {
  for (const Layout a : {Layout::row, Layout::col}) {
    for (const Layout b : {Layout::row, Layout::col}) {
      for (const Layout d : {Layout::row, Layout::col}) {
        SCOPED_TRACE(testing::Message() << "layouts " << static_cast<int>(a) << static_cast<int>(b)
                                        << static_cast<int>(d));
        Gemm gemm{.m = 6, .n = 9, .k = 11, .a_layout = a, .b_layout = b, .d_layout = d, .batch = 2};
        gemm.lda = (a == Layout::row ? 11 : 6) + 1;
        gemm.ldb = (b == Layout::row ? 9 : 11) + 2;
        gemm.ldd = (d == Layout::row ? 9 : 6) + 3;
        gemm.stride_a = 201;
        gemm.stride_b = 302;
        gemm.stride_d = 203;
        expect_same_product(gemm);
      }
    }
  }
}

TEST(GemmCanonical, PackedIsTheSameAsGivingThePackedStrides) {
  for (const Layout d : {Layout::row, Layout::col}) {
    Gemm packed{.m = 6, .n = 9, .k = 11, .d_layout = d, .batch = 2};
    Gemm spelled = packed;
    spelled.lda = 11;
    spelled.ldb = 11;
    spelled.ldd = d == Layout::row ? 9 : 6;
    spelled.stride_a = 66;
    spelled.stride_b = 99;
    spelled.stride_d = 54;
    EXPECT_EQ(completed(packed), completed(spelled));
  }
}

}  // namespace
}  // namespace kiln
