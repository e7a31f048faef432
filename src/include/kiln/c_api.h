/* Kiln for C, and for whatever calls C: Python's ctypes, Rust, Julia. The header is C99.
 *
 * Every function that can fail returns a kiln_status, and leaves a message for the calling thread: kiln_last_error().
 * Nothing is thrown. Objects are created by one function and destroyed by another; handing one over where it is null is
 * an error, except to the functions that destroy. Thread-safe as the C++ interface is: launch from any thread, destroy
 * once nobody uses the object any more. */
#ifndef KILN_C_API_H
#define KILN_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names as C has them. */

/* A CUstream or cudaStream_t; null is the legacy default stream. */
struct CUstream_st;
typedef struct CUstream_st* kiln_stream;

/* The codes of kiln::ErrorCode, which kiln/error.h explains. */
typedef enum kiln_status {
  KILN_OK = 0,
  KILN_INVALID_ARGUMENT = 1,
  KILN_INVALID_MANIFEST,
  KILN_INVALID_EXPRESSION,
  KILN_NOT_FOUND,
  KILN_UNSUPPORTED,
  KILN_NO_DRIVER,
  KILN_NO_DEVICE,
  KILN_COMPILE_FAILED,
  KILN_LAUNCH_FAILED,
  KILN_OUT_OF_MEMORY,
  KILN_IO,
  KILN_CACHE,
  KILN_INTERRUPTED,
  KILN_INTERNAL
} kiln_status;

/* "ok", "invalid_argument", …; "unknown" for a number that is none. Never null. */
const char* kiln_status_name(kiln_status status);

/* What went wrong at this thread's last call that failed; "" before the first. Valid until its next failure. */
const char* kiln_last_error(void);

/* The library's version, "0.1.0". */
const char* kiln_version(void);

typedef struct kiln_runtime kiln_runtime;
typedef struct kiln_operation kiln_operation;

/* For device `device`, or with -1 for the current context's (device 0 where none is current). `cache` is the database's
 * file; null: as the environment says (KILN_CACHE, …); "": memory only. */
kiln_status kiln_runtime_create(int device, const char* cache, kiln_runtime** runtime);
void kiln_runtime_destroy(kiln_runtime* runtime);

/* Adds a template of the caller's own: a manifest file with its source beside it. */
kiln_status kiln_runtime_load(kiln_runtime* runtime, const char* manifest);

/* Finds the best known configuration of a problem, loads its kernels (compiling them where needed) and lays out the
 * launch. `problem` is written as on the command line: "m=4096,n=4096,k=4096,dtype=bf16"; what it leaves out takes the
 * op's defaults. */
kiln_status kiln_prepare(kiln_runtime* runtime, const char* op, const char* problem, kiln_operation** operation);
/* For every value of dim `dim` up to the one that `problem` gives. */
kiln_status kiln_prepare_up_to(kiln_runtime* runtime, const char* op, const char* problem, const char* dim,
                               kiln_operation** operation);
void kiln_operation_destroy(kiln_operation* operation);

/* Queues the operation on `stream`. `pointers`: `pointer_count` device pointers, one for each operand in the op's order
 * (templates/ops/); those of operands that the problem does not have may be null, or left out at the end. `scalars`:
 * one value for each scalar of the op, or a count of 0 for the defaults. `workspace`: kiln_operation_workspace() bytes
 * of device memory, or null to use what the operation keeps for the stream. */
kiln_status kiln_launch(const kiln_operation* operation, kiln_stream stream, void* const* pointers,
                        size_t pointer_count, const double* scalars, size_t scalar_count, void* workspace);
/* The same for an operation prepared over a range: `extent` is the dim's value. */
kiln_status kiln_launch_at(const kiln_operation* operation, kiln_stream stream, int64_t extent, void* const* pointers,
                           size_t pointer_count, const double* scalars, size_t scalar_count, void* workspace);

/* Bytes of device memory that a call needs; of the largest extent, for an operation over a range. */
kiln_status kiln_operation_workspace(const kiln_operation* operation, size_t* bytes);

/* What will run and how it was chosen, "sm90_gemm BK=64,…, exact_measured", for a value of the range's dim (elsewhere
 * 0). Writes at most `size` bytes with the final zero, and the length of the whole text to `length`, which may be null.
 */
kiln_status kiln_operation_describe(const kiln_operation* operation, int64_t extent, char* text, size_t size,
                                    size_t* length);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
