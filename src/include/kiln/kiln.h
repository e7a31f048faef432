// Start here. Kiln bakes CUDA kernels to fit: kernel templates are specialised at run time for the GPU at hand, and the
// best known configuration for a problem is launched.
//
//   kiln::Runtime runtime;
//   auto gemm = runtime.prepare(kiln::Gemm{.m = 4096, .n = 4096, .k = 4096});
//   gemm(stream, a, b, d);
#pragma once

#include "kiln/attention.h"
#include "kiln/config.h"
#include "kiln/dtype.h"
#include "kiln/error.h"
#include "kiln/gemm.h"
#include "kiln/operation.h"
#include "kiln/options.h"
#include "kiln/problem.h"
#include "kiln/runtime.h"
#include "kiln/version.h"
