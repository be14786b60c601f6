# Finds the outside libraries and makes one interface target for each layer that needs some. All libraries
# come from the packages of Debian 12 and 13. A user's own CUDA libtorch is found through CMAKE_PREFIX_PATH.

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)

# libtorch. Debian's Caffe2 config looks for optional parts that Penstock does not need.
find_package(Torch REQUIRED)
add_library(penstock_torch INTERFACE)
# All targets that include torch use OpenMP, so that they can share one precompiled header.
target_link_libraries(penstock_torch INTERFACE ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)
# libtorch's headers are system headers, so that the compiler does not warn about them.
target_include_directories(penstock_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

add_library(penstock_base_deps INTERFACE)
target_link_libraries(penstock_base_deps INTERFACE Threads::Threads)
find_path(PENSTOCK_XXHASH_INCLUDE xxhash.h REQUIRED)  # xxHash is used as a header alone
target_include_directories(penstock_base_deps SYSTEM INTERFACE ${PENSTOCK_XXHASH_INCLUDE})

add_library(penstock_ops_deps INTERFACE)
target_link_libraries(penstock_ops_deps INTERFACE OpenMP::OpenMP_CXX)
# The kernels that use a library lie in a folder of ops/cpu with the library's name. If the library is
# missing, the file of that name in ops/cpu/absent takes the folder's place.
set(penstock_kernel_libraries)
# oneDNN's own CMake config is not used, because it requires OpenCL.
find_path(PENSTOCK_ONEDNN_INCLUDE dnnl.hpp)
find_library(PENSTOCK_ONEDNN_LIBRARY dnnl)
if(PENSTOCK_ONEDNN AND PENSTOCK_ONEDNN_INCLUDE AND PENSTOCK_ONEDNN_LIBRARY)
  target_include_directories(penstock_ops_deps SYSTEM INTERFACE ${PENSTOCK_ONEDNN_INCLUDE})
  target_link_libraries(penstock_ops_deps INTERFACE ${PENSTOCK_ONEDNN_LIBRARY})
  list(APPEND penstock_kernel_libraries onednn)
endif()
find_path(PENSTOCK_XSMM_INCLUDE libxsmm.h)
find_library(PENSTOCK_XSMM_LIBRARY xsmm)
find_library(PENSTOCK_XSMMNOBLAS_LIBRARY xsmmnoblas)
if(PENSTOCK_XSMM AND PENSTOCK_XSMM_INCLUDE AND PENSTOCK_XSMM_LIBRARY AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_include_directories(penstock_ops_deps SYSTEM INTERFACE ${PENSTOCK_XSMM_INCLUDE})
  target_link_libraries(penstock_ops_deps INTERFACE ${PENSTOCK_XSMM_LIBRARY} ${PENSTOCK_XSMMNOBLAS_LIBRARY})
  # Debian's libxsmm is a static archive. Its companion library defines sgemm_ and dgemm_ as stubs. If
  # Penstock exported them, libtorch would call them in place of the real BLAS.
  target_link_options(penstock_ops_deps INTERFACE -Wl,--exclude-libs,libxsmm.a:libxsmmnoblas.a)
  list(APPEND penstock_kernel_libraries xsmm)
endif()

foreach(library onednn xsmm)
  if(library IN_LIST penstock_kernel_libraries)
    list(APPEND penstock_ops_left_out "/ops/cpu/absent/${library}\\.cpp$")
  else()
    list(APPEND penstock_ops_left_out "/ops/cpu/${library}/")
  endif()
endforeach()

# Gloo needs its headers only, because libtorch contains the library. Training in several processes uses it.
add_library(penstock_dist_deps INTERFACE)
find_path(PENSTOCK_GLOO_INCLUDE gloo/context.h)
if(PENSTOCK_GLOO AND PENSTOCK_GLOO_INCLUDE)
  target_include_directories(penstock_dist_deps SYSTEM INTERFACE ${PENSTOCK_GLOO_INCLUDE})
  target_compile_definitions(penstock_dist_deps INTERFACE PENSTOCK_HAVE_GLOO)
else()
  message(STATUS "Gloo's headers are not used (libgloo-dev): training in one process only")
endif()

if(NOT PENSTOCK_CORE)
  find_package(PkgConfig REQUIRED)
  find_package(fmt REQUIRED)
  # PyTorch's libtorch brings fmt's headers. They are found before the system's and do not fit its
  # library, so fmt is used from headers alone.
  set(penstock_fmt fmt::fmt)
  get_target_property(fmt_directories fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  foreach(directory IN LISTS TORCH_INCLUDE_DIRS)
    if(EXISTS ${directory}/fmt/format.h AND NOT directory IN_LIST fmt_directories)
      set(penstock_fmt fmt::fmt-header-only)
    endif()
  endforeach()
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
  pkg_check_modules(LIBARCHIVE REQUIRED IMPORTED_TARGET libarchive)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
  pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl)
  pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
  add_library(penstock_data_deps INTERFACE)
  target_link_libraries(penstock_data_deps INTERFACE penstock_base_deps ${penstock_fmt} nlohmann_json::nlohmann_json
                        PkgConfig::LIBARCHIVE PkgConfig::LIBCURL PkgConfig::LIBCRYPTO
                        PkgConfig::PCRE2 PkgConfig::UTF8PROC)
  add_library(penstock_io_deps INTERFACE)
  target_link_libraries(penstock_io_deps INTERFACE penstock_base_deps ${penstock_fmt} nlohmann_json::nlohmann_json)
  add_library(penstock_cli_deps INTERFACE)
  target_link_libraries(penstock_cli_deps INTERFACE CLI11::CLI11)
endif()
