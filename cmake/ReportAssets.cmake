# Makes the report's style, script and Chart.js part of the library, so that an installed program needs no
# other file.

find_file(PENSTOCK_CHARTJS NAMES chart.min.js Chart.min.js chart.umd.min.js chart.umd.js
          PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH
          DOC "Chart.js, as one script for browsers")
if(NOT PENSTOCK_CHARTJS)
  message(FATAL_ERROR "Chart.js was not found: install libjs-chart.js or set PENSTOCK_CHARTJS to its file")
endif()
set(assets ${PROJECT_SOURCE_DIR}/penstock/report/assets)
set(embedded ${CMAKE_BINARY_DIR}/generated/report_assets.cpp)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DHEADER=penstock/report/assets.h
          -DNAMESPACE=penstock::report::assets
          "-DFILES=chart_js=${PENSTOCK_CHARTJS}|report_css=${assets}/report.css|report_js=${assets}/report.js"
          -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  DEPENDS ${PENSTOCK_CHARTJS} ${assets}/report.css ${assets}/report.js
          ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  VERBATIM)
target_sources(penstock_report PRIVATE ${embedded})
