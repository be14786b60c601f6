# The Debian packages. `cmake --build --preset release --target package` makes a .deb in the build folder for
# each component of the installation that is built. The install() lines say what a component holds.
# dpkg-shlibdeps finds the dependencies on other packages. This file states the dependencies among Penstock's
# own packages.

if(NOT EXISTS /etc/debian_version)
  return()
endif()
find_program(PENSTOCK_DPKG_SHLIBDEPS dpkg-shlibdeps)
if(NOT PENSTOCK_DPKG_SHLIBDEPS)
  message(STATUS "No Debian packages are made; dpkg-dev is not installed")
  return()
endif()

set(package_of_program penstock)
set(package_of_library libpenstock${PENSTOCK_SOVERSION})
set(package_of_development libpenstock-dev)
set(package_of_python python3-penstock)
set(package_components library program development)
if(TARGET penstock_python)
  list(APPEND package_components python)
endif()

# Packages for different releases of Debian have different dependencies, so their versions differ too.
cmake_host_system_information(RESULT distribution QUERY DISTRIB_ID)
cmake_host_system_information(RESULT distribution_version QUERY DISTRIB_VERSION_ID)
string(REPLACE "debian" "deb" distribution "${distribution}")
set(package_release "1~${distribution}${distribution_version}")
set(own_version "${PROJECT_VERSION}-${package_release}")
set(PENSTOCK_MAINTAINER "the Penstock authors <penstock@localhost>" CACHE STRING
    "Maintainer of the Debian packages: NAME <ADDRESS>")

# The shlibs file tells dpkg that a package that links the libraries needs this version of their package.
set(control ${CMAKE_BINARY_DIR}/generated/debian)
set(shlibs)
foreach(name penstock penstock_cli penstock_core penstock_ops)
  string(APPEND shlibs
         "lib${name} ${PENSTOCK_SOVERSION} ${package_of_library} (= ${own_version})\n")
endforeach()
file(WRITE ${control}/shlibs "${shlibs}")
file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${control}/changelog.Debian
     "penstock (${own_version}) unstable; urgency=medium\n\n  * Version ${PROJECT_VERSION}; changelog.gz says what is new.\n\n -- ${PENSTOCK_MAINTAINER}  ${now}\n")

# Every package has its licence and the changelogs. The program's package also has pages and examples.
add_custom_command(
  OUTPUT ${control}/changelog.gz ${control}/changelog.Debian.gz
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/CHANGELOG.md > ${control}/changelog.gz
  COMMAND gzip -9nc ${control}/changelog.Debian > ${control}/changelog.Debian.gz
  DEPENDS ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${control}/changelog.Debian VERBATIM)
add_custom_target(penstock_changelogs ALL DEPENDS ${control}/changelog.gz)
foreach(component IN LISTS package_components)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright
                ${control}/changelog.gz ${control}/changelog.Debian.gz
          DESTINATION share/doc/${package_of_${component}} COMPONENT ${component})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/ARCHITECTURE.md
        DESTINATION share/doc/penstock COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/penstock COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes DESTINATION share/doc/penstock/examples
        COMPONENT program FILES_MATCHING PATTERN "*.toml")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/own_model
        DESTINATION share/doc/libpenstock-dev/examples COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/python
        DESTINATION share/doc/python3-penstock/examples COMPONENT python
        FILES_MATCHING PATTERN "*.py")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${PENSTOCK_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${package_components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${package_release})
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(about "Penstock trains, evaluates, serves and compares Mixture-of-Experts\nlanguage models in C++, with any router, on the machine that you have.")

# penstock_package(<component> SECTION <section> TEXT <description> [DEPENDS <packages>] [RECOMMENDS <packages>]
#                  [SHLIBDEPS])
macro(penstock_package component)
  cmake_parse_arguments(ARG "SHLIBDEPS" "SECTION;TEXT;DEPENDS;RECOMMENDS" "" ${ARGN})
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${package_of_${component}})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${ARG_SECTION})
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${ARG_DEPENDS}")
  set(CPACK_DEBIAN_${key}_PACKAGE_RECOMMENDS "${ARG_RECOMMENDS}")
  set(CPACK_DEBIAN_${key}_PACKAGE_SHLIBDEPS ${ARG_SHLIBDEPS})
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${about}\n${ARG_TEXT}")
endmacro()

penstock_package(library SECTION libs SHLIBDEPS
  TEXT "This package has its shared libraries.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
penstock_package(program SECTION science SHLIBDEPS
  DEPENDS "${package_of_library} (= ${own_version})"
  RECOMMENDS "libopenblas0-openmp"
  TEXT "This package has the program, its manual pages,\ncompletions for shells, documentation and recipes.")
penstock_package(development SECTION libdevel
  DEPENDS "${package_of_library} (= ${own_version}), libtorch-dev, libfmt-dev, nlohmann-json3-dev"
  TEXT "This package has what programs of one's own are compiled with:\nheaders and a CMake package.")
if(TARGET penstock_python)
  math(EXPR next_minor "${Python_VERSION_MINOR} + 1")
  penstock_package(python SECTION python SHLIBDEPS
    DEPENDS "${package_of_library} (= ${own_version}), python3 (>= ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}~), python3 (<< ${Python_VERSION_MAJOR}.${next_minor}), python3-torch, python3-numpy"
    TEXT "This package has the Python module:\nlayers for PyTorch, training, models.")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
      ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
endif()
include(CPack)
