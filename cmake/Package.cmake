# What `cmake --install` puts where: the program, the libraries, the headers and the CMake package.
#   find_package(penstock) gives penstock::core (operators, routers, experts, layers, optimizer) and,
#   unless built with PENSTOCK_CORE, penstock::penstock (everything).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed penstock_operators penstock_parts)
set_target_properties(penstock_operators PROPERTIES EXPORT_NAME operators)
set_target_properties(penstock_parts PROPERTIES EXPORT_NAME core)
foreach(target penstock penstock_program)
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()
foreach(target IN LISTS installed)
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" INSTALL_RPATH_USE_LINK_PATH ON)
endforeach()
install(TARGETS ${installed} EXPORT penstock
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Loaded at run time: SentencePiece by libpenstock from its own folder, the commands by the program.
foreach(target penstock_sentencepiece penstock_commands)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES
      INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

foreach(folder base ops dist routers optim experts layers data io ${penstock_upper_folders})
  if(TARGET penstock_${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/penstock/${folder}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock
            FILES_MATCHING PATTERN "*.h" PATTERN "cpu" EXCLUDE PATTERN "reference" EXCLUDE
            PATTERN "assets" EXCLUDE)
  endif()
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/penstock-config.cmake.in
                              ${CMAKE_BINARY_DIR}/generated/penstock-config.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/penstock-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(EXPORT penstock NAMESPACE penstock:: FILE penstock-targets.cmake DESTINATION ${package})
install(FILES ${CMAKE_BINARY_DIR}/generated/penstock-config.cmake
              ${CMAKE_BINARY_DIR}/generated/penstock-config-version.cmake
        DESTINATION ${package})
