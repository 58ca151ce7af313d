# Chooses between the CPU and the CUDA build: train_gpt_choose_cuda(MODE SITE_PACKAGES NVCC...) sets
#   TRAIN_GPT_WITH_CUDA  whether the program uses GPUs
#   TRAIN_GPT_NVCC       its CUDA compiler: the first of NVCC... that is usable
#   TRAIN_GPT_CUDA_WHY   the reason, in one line
# MODE OFF builds for the CPU. AUTO builds with CUDA if SITE_PACKAGES has LibTorch's CUDA libraries and an nvcc is
# usable. ON requires CUDA and fails without it.

# Sets ERROR to the reason why NVCC cannot be used, or to "" if it can. An nvcc may exist but not work: packages
# install it separately from the headers (crt/, nv/target) and libraries that every compilation needs.
function(train_gpt_check_nvcc nvcc error)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "release 13[.]")
    if(NOT version MATCHES "release [0-9.]+")
      set(${error} "${nvcc} does not run" PARENT_SCOPE)
    else()
      set(${error} "${nvcc} is ${CMAKE_MATCH_0}, and LibTorch needs release 13" PARENT_SCOPE)
    endif()
    return()
  endif()
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_probe)
  file(WRITE ${probe}.cu "#include <cuda_bf16.h>\n#include <nv/target>\n"
    "__global__ void kernel() {}\nint main() { kernel<<<1, 1>>>(); }\n")
  execute_process(COMMAND ${nvcc} -std=c++20 -cudart shared -o ${probe} ${probe}.cu
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(status STREQUAL "0")
    set(${error} "" PARENT_SCOPE)
  else()
    string(REGEX MATCH "[^\n]*(error|cannot|not found)[^\n]*" line "${output}")
    set(${error} "${nvcc} does not compile a kernel: ${line}" PARENT_SCOPE)
  endif()
endfunction()

function(train_gpt_choose_cuda mode site_packages)
  # The CPU-only wheel set has only what libtorch_cpu.so links.
  file(GLOB cuda_header ${site_packages}/nvidia/cu13/include/cublas_v2.h)
  file(GLOB cudnn_lib ${site_packages}/nvidia/cudnn/lib/libcudnn.so.*)
  set(with_cuda OFF)
  set(chosen "")
  if(mode STREQUAL "OFF")
    set(why "TRAIN_GPT_CUDA=OFF")
  elseif(NOT cuda_header OR NOT cudnn_lib)
    set(why "LibTorch is here for the CPU only")
  else()
    set(why "there is no nvcc")
    foreach(nvcc IN LISTS ARGN)
      if(EXISTS ${nvcc} AND NOT with_cuda)
        train_gpt_check_nvcc(${nvcc} error)
        if(error STREQUAL "")
          set(with_cuda ON)
          set(chosen ${nvcc})
          set(why ${nvcc})
        elseif(why STREQUAL "there is no nvcc")
          set(why "${error}")
        endif()
      endif()
    endforeach()
  endif()
  if(mode STREQUAL "ON" AND NOT with_cuda)
    message(FATAL_ERROR "TRAIN_GPT_CUDA=ON, but ${why}: run scripts/setup.sh --cuda")
  endif()
  set(TRAIN_GPT_WITH_CUDA ${with_cuda} PARENT_SCOPE)
  set(TRAIN_GPT_NVCC "${chosen}" PARENT_SCOPE)
  set(TRAIN_GPT_CUDA_WHY "${why}" PARENT_SCOPE)
endfunction()
