# Makes the pages of `penstock serve` and `penstock view` part of the library. Each page is assembled from its
# files.

set(assets ${PROJECT_SOURCE_DIR}/penstock/serve/assets)
file(GLOB parts CONFIGURE_DEPENDS ${assets}/*)
set(embedded_files)
foreach(page page runs)
  set(whole ${CMAKE_BINARY_DIR}/generated/serve_${page}.html)
  add_custom_command(
    OUTPUT ${whole}
    COMMAND ${CMAKE_COMMAND} -DPAGE=${assets}/${page}.html -DOUTPUT=${whole}
            -P ${PROJECT_SOURCE_DIR}/cmake/AssemblePage.cmake
    DEPENDS ${parts} ${PROJECT_SOURCE_DIR}/cmake/AssemblePage.cmake
    VERBATIM)
  list(APPEND embedded_files "${page}=${whole}")
  list(APPEND whole_pages ${whole})
endforeach()
list(JOIN embedded_files "|" embedded_files)
set(embedded_page ${CMAKE_BINARY_DIR}/generated/serve_page.cpp)
add_custom_command(
  OUTPUT ${embedded_page}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_page} -DHEADER=penstock/serve/page.h
          -DNAMESPACE=penstock::serve "-DFILES=${embedded_files}"
          -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  DEPENDS ${whole_pages} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  VERBATIM)
target_sources(penstock_serve PRIVATE ${embedded_page})
