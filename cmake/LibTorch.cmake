# LibTorch as the PyPI wheel lays it out, as imported targets:
#   torch::cpu   ATen, autograd and c10 on the CPU
#   torch::cuda  the same on NVIDIA GPUs (only where TRAIN_GPT_WITH_CUDA is set)
# find_package(Torch) refuses to configure without a CUDA toolkit, and this program runs without one.

file(GLOB torch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
list(GET torch_candidates 0 torch_first)
set(TORCH_DIR "${torch_first}" CACHE PATH "the folder `torch` of the wheel's site-packages")
if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in TORCH_DIR='${TORCH_DIR}': run scripts/setup.sh first")
endif()
get_filename_component(site_packages ${TORCH_DIR} DIRECTORY)
file(GLOB nvidia_lib_dirs ${site_packages}/nvidia/*/lib)

# The full wheel set brings CUDA's headers and cuDNN; the small one only what libtorch_cpu.so links.
file(GLOB cuda_header ${site_packages}/nvidia/cu13/include/cublas_v2.h)
file(GLOB cudnn_lib ${site_packages}/nvidia/cudnn/lib/libcudnn.so.*)
set(TRAIN_GPT_WITH_CUDA OFF)
if(NOT TRAIN_GPT_CUDA STREQUAL "OFF")
  if(cuda_header AND cudnn_lib)
    set(TRAIN_GPT_WITH_CUDA ON)
  elseif(TRAIN_GPT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TRAIN_GPT_CUDA=ON needs the full wheel set: run scripts/setup.sh --cuda")
  endif()
endif()

# Own kernels need nvcc as well; without it every operation runs as its ATen reference.
set(TRAIN_GPT_WITH_KERNELS OFF)
if(TRAIN_GPT_WITH_CUDA)
  file(GLOB nvcc_in_venv ${site_packages}/nvidia/cu13/bin/nvcc)
  find_program(NVCC nvcc HINTS ${site_packages}/nvidia/cu13/bin /usr/local/cuda/bin)
  if(NVCC)
    set(CMAKE_CUDA_COMPILER ${NVCC})
    string(REPLACE "a;" "a-real;" CMAKE_CUDA_ARCHITECTURES "${CUDA_ARCHS}")
    set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
    enable_language(CUDA)
    # CMake 3.25 does not know that this nvcc has C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
    set(TRAIN_GPT_WITH_KERNELS ON)
  endif()
endif()

set(torch_rpath ${TORCH_DIR}/lib ${nvidia_lib_dirs})
set(CMAKE_BUILD_RPATH ${torch_rpath})
set(CMAKE_INSTALL_RPATH ${torch_rpath})
set(torch_rpath_links "")
foreach(dir IN LISTS torch_rpath)
  list(APPEND torch_rpath_links "-Wl,-rpath-link,${dir}")
endforeach()

add_library(torch_c10 SHARED IMPORTED)
set_target_properties(torch_c10 PROPERTIES IMPORTED_LOCATION ${TORCH_DIR}/lib/libc10.so)
add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION ${TORCH_DIR}/lib/libtorch_cpu.so)
add_library(torch_headers INTERFACE)
target_include_directories(torch_headers SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
add_library(torch_any INTERFACE)
target_link_libraries(torch_any INTERFACE torch_headers torch_cpu torch_c10)
target_link_options(torch_any INTERFACE ${torch_rpath_links})
add_library(torch::cpu ALIAS torch_any)

if(TRAIN_GPT_WITH_CUDA)
  file(GLOB cudart ${site_packages}/nvidia/cu13/lib/libcudart.so.*)
  add_library(torch_cuda_any INTERFACE)
  target_include_directories(torch_cuda_any SYSTEM INTERFACE
    ${site_packages}/nvidia/cu13/include ${site_packages}/nvidia/cudnn/include
    ${site_packages}/nvidia/nccl/include)
  target_compile_definitions(torch_cuda_any INTERFACE TRAIN_GPT_WITH_CUDA)
  # Nothing refers to libtorch_cuda by symbol: its kernels register themselves, so it must not be dropped.
  target_link_libraries(torch_cuda_any INTERFACE torch_any -Wl,--no-as-needed
    ${TORCH_DIR}/lib/libtorch_cuda.so ${TORCH_DIR}/lib/libc10_cuda.so ${cudart} -Wl,--as-needed)
  add_library(torch::cuda ALIAS torch_cuda_any)
endif()
message(STATUS "LibTorch in ${TORCH_DIR}; CUDA ${TRAIN_GPT_WITH_CUDA}; own kernels ${TRAIN_GPT_WITH_KERNELS}")
