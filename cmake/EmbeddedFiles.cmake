# Makes TOML files part of the library, so that an installed program needs no other file: the descriptions of zero-shot
# tasks, and the studies that state figures in closed form with the recipes that these studies name. A new file in
# tasks/ or recipes/ needs no entry here.

# penstock_embed(<target> <name> <folder> <header> <namespace> [<text that a file must contain>])
function(penstock_embed target name folder header namespace)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.toml)
  set(embedded ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DROOT=${PROJECT_SOURCE_DIR}/${folder} -DHEADER=${header}
            -DNAMESPACE=${namespace} "-DHAVING=${ARGN}" -P ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/EmbedFiles.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${embedded})
endfunction()

penstock_embed(penstock_tasks task_files tasks penstock/tasks/embedded_files.h penstock::tasks)
penstock_embed(penstock_study closed_form_files recipes penstock/study/config/embedded_files.h penstock::study
               "[closed_form.")
