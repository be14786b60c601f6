# The page of `penstock serve` becomes part of the library.

set(page ${PROJECT_SOURCE_DIR}/penstock/serve/assets/page.html)
set(embedded_page ${CMAKE_BINARY_DIR}/generated/serve_page.cpp)
add_custom_command(
  OUTPUT ${embedded_page}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_page} -DHEADER=penstock/serve/page.h
          -DNAMESPACE=penstock::serve "-DFILES=page=${page}"
          -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  DEPENDS ${page} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  VERBATIM)
target_sources(penstock_serve PRIVATE ${embedded_page})
