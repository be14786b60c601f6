# Makes the Python files of Penstock's class for transformers part of the library. The library writes them
# beside the models that it exports.

set(python ${PROJECT_SOURCE_DIR}/penstock/convert/export/python)
set(embedded_class ${CMAKE_BINARY_DIR}/generated/own_class_files.cpp)
add_custom_command(
  OUTPUT ${embedded_class}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_class} -DHEADER=penstock/convert/export/own_class.h
          -DNAMESPACE=penstock::own_class
          "-DFILES=configuration=${python}/configuration_penstock.py|modeling=${python}/modeling_penstock.py"
          -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  DEPENDS ${python}/configuration_penstock.py ${python}/modeling_penstock.py
          ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
  VERBATIM)
target_sources(penstock_convert PRIVATE ${embedded_class})
