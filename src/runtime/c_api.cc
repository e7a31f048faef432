// The C interface: every C++ exception becomes a status and a message of the calling thread.
#include "kiln/c_api.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string>

#include "kiln/error.h"
#include "kiln/runtime.h"
#include "kiln/version.h"

struct kiln_runtime {
  kiln::Runtime runtime;
};
struct kiln_operation {
  kiln::Operation operation;
};

namespace {

static_assert(KILN_INVALID_ARGUMENT == static_cast<int>(kiln::ErrorCode::invalid_argument));
static_assert(KILN_INTERNAL == static_cast<int>(kiln::ErrorCode::internal));

thread_local std::string last_error;

kiln_status fail(kiln_status status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

template <class Work>
kiln_status guarded(const Work& work) noexcept {
  try {
    work();
    return KILN_OK;
  } catch (const kiln::Error& error) {
    return fail(static_cast<kiln_status>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(KILN_OUT_OF_MEMORY, "the host's memory is exhausted");
  } catch (const std::exception& error) {
    return fail(KILN_INTERNAL, error.what());
  } catch (...) {
    return fail(KILN_INTERNAL, "an exception of no known type");
  }
}

// The object behind a parameter that must not be null.
template <class T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) {
    throw kiln::Error(kiln::ErrorCode::invalid_argument, std::string("the argument '") + name + "' is null");
  }
  return *pointer;
}

template <class T>
std::span<const T> values(const T* first, size_t count, const char* name) {
  if (count > 0) given(first, name);
  return {first, count};
}

kiln::Problem read_problem(const kiln::Runtime& runtime, const char* op, const char* problem) {
  return runtime.problem(&given(op, "op"), &given(problem, "problem"));
}

}  // namespace

const char* kiln_status_name(kiln_status status) {
  if (status == KILN_OK) return "ok";
  if (status < KILN_INVALID_ARGUMENT || status > KILN_INTERNAL) return "unknown";
  return kiln::to_string(static_cast<kiln::ErrorCode>(status));
}

const char* kiln_last_error(void) { return last_error.c_str(); }

const char* kiln_version(void) { return kiln::kVersion; }

kiln_status kiln_runtime_create(int device, const char* cache, kiln_runtime** runtime) {
  return guarded([&] {
    kiln_runtime*& result = given(runtime, "runtime");
    kiln::RuntimeOptions options = kiln::options_from_environment();
    if (cache != nullptr) options.cache = cache;
    if (device < -1) {
      throw kiln::Error(kiln::ErrorCode::invalid_argument,
                        "device " + std::to_string(device) + ": an index from 0 on, or -1 for the current one");
    }
    result = device == -1 ? new kiln_runtime{kiln::Runtime(options)} : new kiln_runtime{kiln::Runtime(device, options)};
  });
}

void kiln_runtime_destroy(kiln_runtime* runtime) { delete runtime; }

kiln_status kiln_runtime_load(kiln_runtime* runtime, const char* manifest) {
  return guarded([&] { given(runtime, "runtime").runtime.load(&given(manifest, "manifest")); });
}

kiln_status kiln_prepare(kiln_runtime* runtime, const char* op, const char* problem, kiln_operation** operation) {
  return guarded([&] {
    kiln_operation*& result = given(operation, "operation");
    kiln::Runtime& on = given(runtime, "runtime").runtime;
    result = new kiln_operation{on.prepare(read_problem(on, op, problem))};
  });
}

kiln_status kiln_prepare_up_to(kiln_runtime* runtime, const char* op, const char* problem, const char* dim,
                               kiln_operation** operation) {
  return guarded([&] {
    kiln_operation*& result = given(operation, "operation");
    kiln::Runtime& on = given(runtime, "runtime").runtime;
    result = new kiln_operation{on.prepare(read_problem(on, op, problem), &given(dim, "dim"))};
  });
}

void kiln_operation_destroy(kiln_operation* operation) { delete operation; }

kiln_status kiln_launch(const kiln_operation* operation, kiln_stream stream, void* const* pointers,
                        size_t pointer_count, const double* scalars, size_t scalar_count, void* workspace) {
  return guarded([&] {
    given(operation, "operation")
        .operation(stream, values(pointers, pointer_count, "pointers"), values(scalars, scalar_count, "scalars"),
                   workspace);
  });
}

kiln_status kiln_launch_at(const kiln_operation* operation, kiln_stream stream, int64_t extent, void* const* pointers,
                           size_t pointer_count, const double* scalars, size_t scalar_count, void* workspace) {
  return guarded([&] {
    given(operation, "operation")
        .operation(stream, extent, values(pointers, pointer_count, "pointers"),
                   values(scalars, scalar_count, "scalars"), workspace);
  });
}

kiln_status kiln_operation_workspace(const kiln_operation* operation, size_t* bytes) {
  return guarded([&] { given(bytes, "bytes") = given(operation, "operation").operation.workspace_bytes(); });
}

kiln_status kiln_operation_describe(const kiln_operation* operation, int64_t extent, char* text, size_t size,
                                    size_t* length) {
  return guarded([&] {
    const kiln::Provenance answer = given(operation, "operation").operation.provenance(extent);
    const std::string whole =
        answer.template_name + " " + kiln::to_text(answer.config) + ", " + kiln::to_string(answer.rung);
    if (length != nullptr) *length = whole.size();
    if (size == 0) return;
    const std::size_t shown = std::min(size - 1, whole.size());
    std::memcpy(&given(text, "text"), whole.data(), shown);
    text[shown] = '\0';
  });
}
