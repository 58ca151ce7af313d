# train_gpt_layer(NAME [TORCH] [FOLDERS FOLDER...] [ONLY FILE...] [EXCEPT FILE...] [LINK ...]): builds one folder of
# src/ as a static library, from the sources of the folders after FOLDERS (by default "."), from the files after ONLY,
# or from all but the files after EXCEPT. Without TORCH the library neither compiles nor links with LibTorch.
# train_gpt_test(NAME [TORCH] [FOLDERS FOLDER...] [LINK ...]): builds the tests of one layer as one program, run as one
# ctest test.
# train_gpt_python_test(NAME FILE): runs a Python unittest file as one ctest test.
# train_gpt_may_skip(NAME): ctest reports the test NAME as skipped if it exits with 77, as both test runners in
# tests/runner do.

# train_gpt_torch_pch(NAME HEADER...): defines the precompiled header NAME; train_gpt_use_torch(TARGET NAME) uses
# it.
function(train_gpt_torch_pch name)
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/src/torch_pch.cpp)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  target_link_libraries(${name} PUBLIC fmt_library torch::cpu)
  # Always compiled without -Werror: another flag would change the file's bytes, and ccache would miss for every
  # source that uses it.
  get_target_property(options ${name} COMPILE_OPTIONS)
  list(REMOVE_ITEM options $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  set_target_properties(${name} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()

function(train_gpt_use_torch target pch)
  target_link_libraries(${target} PUBLIC torch::cpu)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# train_gpt_glob(VARIABLE PATTERN [FOLDER...]): lists the matching files of these folders, by default of the current one.
function(train_gpt_glob variable pattern)
  set(folders ${ARGN})
  if(NOT folders)
    set(folders .)
  endif()
  list(TRANSFORM folders REPLACE "^(.+)$" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/${pattern}")
  list(TRANSFORM folders REPLACE "/[.]/" "/")
  file(GLOB files CONFIGURE_DEPENDS ${folders})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

function(train_gpt_layer name)
  cmake_parse_arguments(arg "TORCH" "" "FOLDERS;LINK;ONLY;EXCEPT" ${ARGN})
  train_gpt_glob(sources *.cpp ${arg_FOLDERS})
  if(arg_ONLY)
    list(TRANSFORM arg_ONLY PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  endif()
  foreach(file IN LISTS arg_EXCEPT)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  if(NOT sources)
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_LINK})
    return()
  endif()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC fmt_library ${arg_LINK})
  if(arg_TORCH)
    train_gpt_use_torch(${name} torch_pch)
  endif()
endfunction()

function(train_gpt_test name)
  cmake_parse_arguments(arg "TORCH" "" "FOLDERS;LINK" ${ARGN})
  train_gpt_glob(sources *_test.cpp ${arg_FOLDERS})
  if(NOT sources)
    return()
  endif()
  # Tests that need a GPU are a separate program, which is skipped if there is no GPU.
  set(gpu_sources ${sources})
  list(FILTER gpu_sources INCLUDE REGEX "_gpu_test.cpp$")
  list(FILTER sources EXCLUDE REGEX "_gpu_test.cpp$")
  train_gpt_test_program(${name} unit "${arg_LINK}" ${arg_TORCH} ${sources})
  if(gpu_sources AND TRAIN_GPT_WITH_CUDA)
    train_gpt_test_program(${name}_gpu gpu "${arg_LINK}" ${arg_TORCH})
    train_gpt_cuda_sources(${name}_gpu_tests ${gpu_sources})
  endif()
endfunction()

function(train_gpt_test_program name label link torch)
  add_executable(${name}_tests ${ARGN})
  target_include_directories(${name}_tests PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name}_tests PRIVATE
    TEST_DATA_DIR="${CMAKE_SOURCE_DIR}/tests/fixtures" SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    TEST_PYTHON="${CMAKE_SOURCE_DIR}/.venv/bin/python")
  target_compile_options(${name}_tests PRIVATE ${test_options})
  target_link_libraries(${name}_tests PRIVATE ${link} test_main)
  if(torch)
    train_gpt_use_torch(${name}_tests torch_test_pch)
  endif()
  add_test(NAME ${name} COMMAND ${name}_tests)
  # One thread per test: the tensors are small, and idle threads that spin would slow down the other tests.
  set(environment OMP_NUM_THREADS=1)
  if(torch)
    # Tensors of some megabytes come and go: memory that goes back to the system each time costs page faults.
    list(APPEND environment MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=1073741824)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300 PROCESSORS 2 ENVIRONMENT "${environment}")
  train_gpt_may_skip(${name})
endfunction()

function(train_gpt_python_test name file)
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_SOURCE_DIR}/tests/runner/run_unittest.py
                                ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  train_gpt_may_skip(${name})
endfunction()

function(train_gpt_may_skip name)
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
