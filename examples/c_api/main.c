/* D = 2 · A · Bᵀ in fp32 through Kiln's C interface, checked against the same product on the host. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kiln/c_api.h"

enum { kM = 40, kN = 56, kK = 72, kSkipped = 77 };

/* The little of the CUDA driver that the example needs, opened at run time so that it builds without CUDA. */
static void* driver;

static void* symbol(const char* name) {
  void* address = dlsym(driver, name);
  if (address == NULL) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(1);
  }
  return address;
}

/* Calls a function of the driver, and ends the program where it fails. ISO C has no cast from dlsym's result. */
#define CALL(name, signature, arguments)                                     \
  do {                                                                       \
    int(*call_function) signature;                                           \
    void* const call_symbol = symbol(name);                                  \
    memcpy(&call_function, &call_symbol, sizeof call_function);              \
    const int call_result = call_function arguments;                         \
    if (call_result != 0) {                                                  \
      fprintf(stderr, "%s failed with CUDA error %d\n", name, call_result); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

static int has_gpu(void) {
  int(*count)(int*);
  int(*init)(unsigned);
  int found = 0;
  void* address;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return 0;
  address = symbol("cuInit");
  memcpy(&init, &address, sizeof init);
  address = symbol("cuDeviceGetCount");
  memcpy(&count, &address, sizeof count);
  return init(0) == 0 && count(&found) == 0 && found > 0;
}

static void* upload(const float* values, size_t bytes) {
  unsigned long long address = 0;
  CALL("cuMemAlloc_v2", (unsigned long long*, size_t), (&address, bytes));
  CALL("cuMemcpyHtoD_v2", (unsigned long long, const void*, size_t), (address, values, bytes));
  return (void*)(size_t)address;
}

static void check(kiln_status status) {
  if (status == KILN_OK) return;
  fprintf(stderr, "%s: %s\n", kiln_status_name(status), kiln_last_error());
  exit(1);
}

int main(void) {
  static float a[kM * kK], b[kN * kK], d[kM * kN];
  kiln_runtime* runtime = NULL;
  kiln_operation* gemm = NULL;
  char description[512];
  double worst = 0;

  if (!has_gpu()) {
    puts("skipped: there is no GPU here");
    return kSkipped;
  }
  int device = 0;
  void* context = NULL;
  CALL("cuDeviceGet", (int*, int), (&device, 0));
  CALL("cuDevicePrimaryCtxRetain", (void**, int), (&context, device));
  CALL("cuCtxSetCurrent", (void*), (context));

  for (int i = 0; i < kM * kK; ++i) a[i] = (float)(i % 13 - 6);
  for (int i = 0; i < kN * kK; ++i) b[i] = (float)(i % 7 - 3);
  void* const a_device = upload(a, sizeof a);
  void* const b_device = upload(b, sizeof b);
  void* const d_device = upload(d, sizeof d);

  check(kiln_runtime_create(-1, NULL, &runtime));
  check(kiln_prepare(runtime, "gemm", "m=40,n=56,k=72,dtype=f32", &gemm));
  check(kiln_operation_describe(gemm, 0, description, sizeof description, NULL));

  void* const pointers[] = {a_device, b_device, d_device};
  const double scalars[] = {2.0, 0.0}; /* alpha, beta */
  check(kiln_launch(gemm, NULL, pointers, 3, scalars, 2, NULL));
  CALL("cuCtxSynchronize", (void), ());
  CALL("cuMemcpyDtoH_v2", (void*, unsigned long long, size_t), (d, (unsigned long long)(size_t)d_device, sizeof d));

  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += 2.0 * (double)a[m * kK + k] * (double)b[n * kK + k];
      worst = fmax(worst, fabs(sum - (double)d[m * kN + n]));
    }
  }
  printf("%s: largest difference %g\n", description, worst);
  kiln_operation_destroy(gemm);
  kiln_runtime_destroy(runtime);
  return worst < 1e-3 ? 0 : 1;
}
