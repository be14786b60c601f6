# The descriptions of zero-shot tasks become part of the library, so that an installed program needs
# no other file. A new file in tasks/ needs no entry here.

file(GLOB_RECURSE task_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tasks/*.toml)
set(embedded_tasks ${CMAKE_BINARY_DIR}/generated/task_files.cpp)
add_custom_command(
  OUTPUT ${embedded_tasks}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded_tasks} -DROOT=${PROJECT_SOURCE_DIR}/tasks
          -P ${PROJECT_SOURCE_DIR}/cmake/EmbedTasks.cmake
  DEPENDS ${task_files} ${PROJECT_SOURCE_DIR}/cmake/EmbedTasks.cmake
  VERBATIM)
target_sources(penstock_tasks PRIVATE ${embedded_tasks})
