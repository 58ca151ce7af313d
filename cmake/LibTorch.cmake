# Imported targets for LibTorch in the layout of the PyPI wheel:
#   torch::cpu   ATen, autograd and c10 on the CPU
#   torch::cuda  torch::cpu plus NVIDIA GPUs, cuDNN and NCCL (only if TRAIN_GPT_WITH_CUDA is set); the device
#                layer links it, and every layer that links the device layer gets it through that
# find_package(Torch) is not used because it requires a CUDA toolkit at configure time.

file(GLOB torch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
list(GET torch_candidates 0 torch_first)
set(TORCH_DIR "${torch_first}" CACHE PATH "the folder `torch` of the wheel's site-packages")
if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in TORCH_DIR='${TORCH_DIR}': run scripts/setup.sh first")
endif()
get_filename_component(site_packages ${TORCH_DIR} DIRECTORY)
file(GLOB nvidia_lib_dirs ${site_packages}/nvidia/*/lib)

# The wheels are searched first because their versions are pinned.
set(NVCC "" CACHE FILEPATH "CUDA compiler; if empty, nvcc from the wheels or the system")
if(NVCC)
  set(nvccs ${NVCC})
else()
  find_program(nvcc_on_path nvcc NO_CACHE)
  set(nvccs ${site_packages}/nvidia/cu13/bin/nvcc /usr/local/cuda/bin/nvcc ${nvcc_on_path})
endif()
include(Cuda)
train_gpt_choose_cuda(${TRAIN_GPT_CUDA} ${site_packages} ${nvccs})

if(TRAIN_GPT_WITH_CUDA)
  set(CMAKE_CUDA_COMPILER ${TRAIN_GPT_NVCC})
  string(REPLACE "a;" "a-real;" CMAKE_CUDA_ARCHITECTURES "${CUDA_ARCHS}")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  enable_language(CUDA)
  # CMake 3.25 does not know that this nvcc supports C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
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
  file(GLOB cuda_libraries ${site_packages}/nvidia/cu13/lib/libcudart.so.*
                           ${site_packages}/nvidia/cu13/lib/libcublasLt.so.*)
  add_library(torch_cuda_any INTERFACE)
  # No symbol refers to libtorch_cuda: its kernels register themselves, so the linker must not drop it.
  target_link_libraries(torch_cuda_any INTERFACE torch_any -Wl,--no-as-needed
    ${TORCH_DIR}/lib/libtorch_cuda.so ${TORCH_DIR}/lib/libc10_cuda.so ${cuda_libraries} -Wl,--as-needed)
  add_library(torch::cuda ALIAS torch_cuda_any)
endif()

# train_gpt_cuda_sources(TARGET FILE...) adds CUDA sources. Only these get CUDA's include path: all other sources
# compile identically for the CPU and the CUDA program, so ccache compiles them once. Headers missing from the
# wheels (crt/, nv/) come from the compiler's toolkit.
set(cuda_include_flags "")
foreach(dir IN ITEMS ${site_packages}/nvidia/cu13/include ${site_packages}/nvidia/nccl/include
                     ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  list(APPEND cuda_include_flags -isystem${dir})
endforeach()
function(train_gpt_cuda_sources target)
  target_sources(${target} PRIVATE ${ARGN})
  list(FILTER ARGN INCLUDE REGEX "[.]cpp$")
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${cuda_include_flags})
endfunction()

if(TRAIN_GPT_WITH_CUDA)
  message(STATUS "LibTorch in ${TORCH_DIR}; with CUDA, compiled by ${CMAKE_CUDA_COMPILER}")
else()
  message(STATUS "LibTorch in ${TORCH_DIR}; without CUDA: ${TRAIN_GPT_CUDA_WHY}")
endif()
