# Says where `cmake --install` puts the program, the libraries, the headers and the CMake package.
#   find_package(penstock) gives penstock::core (operators, routers, experts, layers, optimizer) and,
#   unless built with PENSTOCK_CORE, penstock::penstock (everything).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed penstock_operators penstock_parts)
set_target_properties(penstock_operators PROPERTIES EXPORT_NAME operators)
set_target_properties(penstock_parts PROPERTIES EXPORT_NAME core)
if(TARGET penstock)
  list(APPEND installed penstock)
endif()
set(libraries ${installed})
foreach(target penstock_sentencepiece penstock_commands)
  if(TARGET ${target})
    list(APPEND libraries ${target})
  endif()
endforeach()
set_target_properties(${libraries} PROPERTIES
  INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS ${installed} EXPORT penstock
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
        NAMELINK_COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Two libraries are loaded at run time. libpenstock loads the SentencePiece module from its own folder, and
# the program loads the commands.
if(TARGET penstock_sentencepiece)
  install(TARGETS penstock_sentencepiece
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
if(TARGET penstock_program)
  install(TARGETS penstock_commands
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_SKIP)
  set_target_properties(penstock_program PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS penstock_program
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # The installation runs the program to write its manual pages and completions.
  set(manual ${CMAKE_BINARY_DIR}/manual)
  install(CODE "
    file(REMOVE_RECURSE \"${manual}\")
    execute_process(COMMAND \"$<TARGET_FILE:penstock_program>\" manual \"${manual}\" COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB pages \"${manual}/man/*/*\")
    execute_process(COMMAND gzip -9n \${pages} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  set(completions ${manual}/completions)
  install(FILES ${completions}/penstock DESTINATION share/bash-completion/completions COMPONENT program)
  install(FILES ${completions}/_penstock DESTINATION share/zsh/vendor-completions COMPONENT program)
  install(FILES ${completions}/penstock.fish DESTINATION share/fish/vendor_completions.d COMPONENT program)
endif()

foreach(folder base ops dist routers optim experts layers data io ${penstock_upper_folders})
  if(TARGET penstock_${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/penstock/${folder}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock COMPONENT development
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
install(EXPORT penstock NAMESPACE penstock:: FILE penstock-targets.cmake DESTINATION ${package}
        COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/generated/penstock-config.cmake
              ${CMAKE_BINARY_DIR}/generated/penstock-config-version.cmake
        DESTINATION ${package} COMPONENT development)
