# cmake -DOUTPUT=x.cpp -DROOT=tasks -P EmbedTasks.cmake
# Writes a .cpp that defines penstock::tasks::embedded_files with every ROOT/**.toml.
file(GLOB_RECURSE paths RELATIVE ${ROOT} ${ROOT}/*.toml)
list(SORT paths)
set(source "// Generated from the files that it holds.\n#include \"penstock/tasks/embedded_files.h\"\n\nnamespace penstock::tasks {\nnamespace {\nconstexpr EmbeddedFile kFiles[] = {\n")
foreach(path IN LISTS paths)
  file(READ "${ROOT}/${path}" text)
  string(APPEND source "{\"${path}\", R\"~~~(${text})~~~\"},\n")
endforeach()
string(APPEND source "};\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n}  // namespace penstock::tasks\n")
file(WRITE "${OUTPUT}" "${source}")
