# penstock_module(<folder> [TORCH] [LINK <targets>] [EXCEPT <patterns>]) builds one folder of penstock/ as an object
# library with the project's warnings, sanitizers and precompiled header.
# penstock_library(<name> FOLDERS ... LINK ... BUILD_LINK ... INSTALL_LINK ...) joins folders into one shared library.
# LINK names targets that are installed too. BUILD_LINK names targets that only the build uses. Users of the installed
# package get the targets of INSTALL_LINK instead.

include(CheckCXXCompilerFlag)

function(penstock_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_definitions(${target} PRIVATE PENSTOCK_VERSION="${PROJECT_VERSION}")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unknown-pragmas -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # It warns of uninitialized members where a std::variant of containers is moved.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# From g++ 13 on, -O2 sets these flags of x86 processors and -O1 does not. GCC uses a precompiled header only with equal
# ones.
check_cxx_compiler_flag("-mvzeroupper -munroll-only-small-loops" PENSTOCK_HAS_MACHINE_FLAGS_OF_O2)
if(PENSTOCK_HAS_MACHINE_FLAGS_OF_O2)
  set(PENSTOCK_MACHINE_FLAGS_OF_O2 -mvzeroupper -munroll-only-small-loops)
endif()

# There are two precompiled headers, one with libtorch and one without. Each is compiled once and shared.
function(penstock_pch)
  # file(CONFIGURE) writes the file only if it changes. A newer file would cause everything to be compiled again.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/pch/empty.cpp CONTENT "// for the precompiled headers\n")
  add_library(penstock_pch_plain OBJECT ${CMAKE_BINARY_DIR}/pch/empty.cpp)
  penstock_compile_options(penstock_pch_plain)
  target_include_directories(penstock_pch_plain PRIVATE ${PROJECT_SOURCE_DIR})
  target_precompile_headers(penstock_pch_plain PRIVATE <algorithm> <cstdint> <filesystem> <fstream>
    <functional> <map> <memory> <optional> <set> <sstream> <string> <variant> <vector> <chrono>)
  add_library(penstock_pch_torch OBJECT ${CMAKE_BINARY_DIR}/pch/empty.cpp)
  penstock_compile_options(penstock_pch_torch)
  target_include_directories(penstock_pch_torch PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(penstock_pch_torch PRIVATE penstock_torch)
  # The list does not have <torch/torch.h>, which includes all of libtorch's layers and optimizers. Every
  # translation unit would take three times as long to read it as to read the headers that the code uses.
  target_precompile_headers(penstock_pch_torch PRIVATE <ATen/ATen.h> <torch/autograd.h>
    <torch/csrc/autograd/custom_function.h> <torch/library.h> <torch/nn/module.h> <torch/types.h>
    <torch/utils.h> <map> <optional> <string> <vector>)
endfunction()

# Reading the precompiled header takes longer than compiling a small file. With PENSTOCK_UNITY ten files of a
# folder therefore share a translation unit. The operators and their kernels do not share one, because their
# files define the same names on purpose.
function(penstock_unity target)
  if(PENSTOCK_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "/penstock/ops/(cpu/.*|[^/]*)$")
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

function(penstock_module folder)
  cmake_parse_arguments(ARG "TORCH" "" "LINK;EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/penstock/${folder}/*.cpp)
  foreach(pattern "/cli/processes/launcher\\.cpp$" "/sentencepiece/module\\.cpp$" ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(penstock_${folder} OBJECT ${sources})
  penstock_compile_options(penstock_${folder})
  penstock_unity(penstock_${folder})
  target_include_directories(penstock_${folder} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(penstock_${folder} PUBLIC ${ARG_LINK})
  if(ARG_TORCH)
    target_link_libraries(penstock_${folder} PUBLIC penstock_torch)
    target_precompile_headers(penstock_${folder} REUSE_FROM penstock_pch_torch)
  else()
    target_precompile_headers(penstock_${folder} REUSE_FROM penstock_pch_plain)
  endif()
endfunction()

function(penstock_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINK;BUILD_LINK;INSTALL_LINK" ${ARGN})
  add_library(${name} SHARED)
  foreach(folder IN LISTS ARG_FOLDERS)
    if(TARGET penstock_${folder})
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:penstock_${folder}>)
    endif()
  endforeach()
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                        SOVERSION ${PENSTOCK_SOVERSION})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:include>)
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  foreach(item IN LISTS ARG_BUILD_LINK)
    target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:${item}>)
  endforeach()
  foreach(item IN LISTS ARG_INSTALL_LINK)
    target_link_libraries(${name} PUBLIC $<INSTALL_INTERFACE:${item}>)
  endforeach()
endfunction()

# penstock_tests(<folder> [TORCH] LINK ...) builds tests/<folder>/**/*.cpp as one GoogleTest binary.
function(penstock_tests folder)
  cmake_parse_arguments(ARG "TORCH" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  penstock_compile_options(test_${folder})
  penstock_unity(test_${folder})
  if(CMAKE_BUILD_TYPE STREQUAL Release)  # -O1 compiles a quarter faster, and the tests' own code computes little
    target_compile_options(test_${folder} PRIVATE -O1 ${PENSTOCK_MACHINE_FLAGS_OF_O2})
  endif()
  # Tests are compiled with -fPIC like the libraries, not with -fPIE, because GCC uses a precompiled header
  # only with equal flags.
  set_target_properties(test_${folder} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(test_${folder} PRIVATE -fPIC)
  target_link_libraries(test_${folder} PRIVATE ${ARG_LINK} GTest::gtest GTest::gtest_main)
  target_compile_definitions(test_${folder} PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_TORCH)
    target_sources(test_${folder} PRIVATE ${PROJECT_SOURCE_DIR}/tests/undrawn_memory.cpp)
    target_precompile_headers(test_${folder} REUSE_FROM penstock_pch_torch)
  endif()
  add_test(NAME ${folder} COMMAND test_${folder} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
  set_tests_properties(${folder} PROPERTIES TIMEOUT 1200)
endfunction()
