# cmake -DPAGE=page.html -DOUTPUT=whole.html -P AssemblePage.cmake
# Writes PAGE to OUTPUT. Each line "@include NAME" is replaced by the file NAME beside PAGE.
get_filename_component(folder "${PAGE}" DIRECTORY)
file(READ "${PAGE}" text)
string(REGEX MATCHALL "@include [a-z.]+" includes "${text}")
foreach(include IN LISTS includes)
  string(REPLACE "@include " "" name "${include}")
  file(READ "${folder}/${name}" part)
  string(REPLACE "${include}\n" "${part}" text "${text}")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
