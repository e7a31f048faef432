# Finds cuda.h and nvrtc.h, of a toolkit or of the PyPI wheels: only headers are needed to build, since libcuda, libnvrtc
# and NVML are opened at run time.
set(kiln_cuda_hints "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
find_path(KILN_CUDA_INCLUDE_DIR cuda.h HINTS ${kiln_cuda_hints} PATH_SUFFIXES include)
find_path(KILN_NVRTC_INCLUDE_DIR nvrtc.h HINTS ${KILN_CUDA_INCLUDE_DIR} ${kiln_cuda_hints} PATH_SUFFIXES include)
if(NOT KILN_CUDA_INCLUDE_DIR OR NOT KILN_NVRTC_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h and nvrtc.h (CUDA 12.4 or later) are not found; set CUDA_HOME, or run ./dev, which fetches them")
endif()
file(STRINGS "${KILN_CUDA_INCLUDE_DIR}/cuda.h" kiln_cuda_version REGEX "^#define CUDA_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+" kiln_cuda_version "${kiln_cuda_version}")
if(kiln_cuda_version LESS 12040)
  message(FATAL_ERROR "${KILN_CUDA_INCLUDE_DIR}/cuda.h is version ${kiln_cuda_version}; 12040 (CUDA 12.4) or later is needed")
endif()

# Where a libnvrtc was found when building: the last place the library looks at run time.
find_file(KILN_NVRTC_LIBRARY NAMES libnvrtc.so libnvrtc.so.13 libnvrtc.so.12
          HINTS ${kiln_cuda_hints} ${KILN_NVRTC_INCLUDE_DIR}/.. PATH_SUFFIXES lib64 lib)
set(kiln_nvrtc_folder "")
if(KILN_NVRTC_LIBRARY)
  get_filename_component(kiln_nvrtc_folder "${KILN_NVRTC_LIBRARY}" DIRECTORY)
endif()

add_library(kiln_cuda_headers INTERFACE)
target_include_directories(kiln_cuda_headers SYSTEM INTERFACE ${KILN_CUDA_INCLUDE_DIR} ${KILN_NVRTC_INCLUDE_DIR})
