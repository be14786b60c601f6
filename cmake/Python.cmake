# The Python package `penstock` (python/). It is built if pybind11 and the headers of a Python with this
# libtorch are found. It lies in BUILD/python/penstock; users set PYTHONPATH=BUILD/python. No other target
# needs it.

# Debian's Python is preferred, because its torch uses the libtorch that is linked here.
if(NOT Python_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python COMPONENTS Interpreter Development.Module QUIET)
if(Python_FOUND)
  find_package(pybind11 CONFIG QUIET)
endif()
find_library(PENSTOCK_TORCH_PYTHON torch_python HINTS ${TORCH_INSTALL_PREFIX}/lib)
find_path(PENSTOCK_TORCH_PYBIND torch/csrc/utils/pybind.h HINTS ${TORCH_INCLUDE_DIRS})
if(NOT (Python_FOUND AND pybind11_FOUND AND PENSTOCK_TORCH_PYTHON AND PENSTOCK_TORCH_PYBIND))
  message(STATUS "The Python package is not built; scripts/python installs what is missing, and builds it")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/*.cpp)
pybind11_add_module(penstock_python MODULE NO_EXTRAS ${sources})
penstock_compile_options(penstock_python)
penstock_unity(penstock_python)
# libtorch's headers set a visibility of their own, about which GCC would warn.
target_compile_options(penstock_python PRIVATE -Wno-attributes)
target_include_directories(penstock_python PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(penstock_python PRIVATE penstock_commands penstock_torch ${PENSTOCK_TORCH_PYTHON}
                      penstock_data_deps penstock_io_deps penstock_cli_deps)
add_dependencies(penstock_python penstock_sentencepiece)
set(package_directory ${CMAKE_BINARY_DIR}/python/penstock)
set_target_properties(penstock_python PROPERTIES OUTPUT_NAME _core
                      LIBRARY_OUTPUT_DIRECTORY ${package_directory}
                      BUILD_RPATH "$ORIGIN/../../lib"
                      INSTALL_RPATH "$ORIGIN/../../../../${CMAKE_INSTALL_LIBDIR}"
                      INSTALL_RPATH_USE_LINK_PATH ON)

# The package's Python files are symbolic links, so that Python runs the files that a developer edits.
file(MAKE_DIRECTORY ${package_directory})
file(GLOB package_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/penstock/*)
list(FILTER package_files INCLUDE REGEX "\\.(py|pyi|typed)$")
foreach(file IN LISTS package_files)
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${package_directory}/${name} SYMBOLIC)
endforeach()
set(installed_package lib/python3/dist-packages/penstock)
install(TARGETS penstock_python LIBRARY DESTINATION ${installed_package} COMPONENT python)
install(FILES ${package_files} DESTINATION ${installed_package} COMPONENT python)
