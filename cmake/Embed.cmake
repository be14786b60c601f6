# cmake -DOUTPUT=x.cpp "-DFILES=name=path|name=path" -P Embed.cmake
# Writes a .cpp that defines penstock::study::assets::<name> with each file's bytes.
set(source "// Generated from the files it names.\n#include \"penstock/study/assets.h\"\n\nnamespace penstock::study::assets {\n")
string(REPLACE "|" ";" pairs "${FILES}")
foreach(pair IN LISTS pairs)
  string(REGEX MATCH "^([a-z_]+)=(.*)$" _ "${pair}")
  set(name ${CMAKE_MATCH_1})
  set(path ${CMAKE_MATCH_2})
  file(READ "${path}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  # Short pieces: a compiler may bound the length of a line.
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f]))" "\\1\"\n\"" bytes "${bytes}")
  file(SIZE "${path}" size)
  string(APPEND source "static const char ${name}_bytes[] =\n\"${bytes}\";\nconst std::string_view ${name}(${name}_bytes, ${size});\n")
endforeach()
string(APPEND source "}  // namespace penstock::study::assets\n")
file(WRITE "${OUTPUT}" "${source}")
