# The Python package against the program and against what C++ computes.
add_executable(python_numbers tests/python/numbers.cpp)
penstock_compile_options(python_numbers)
target_link_libraries(python_numbers PRIVATE penstock penstock_torch)
foreach(part models runs end layers parts examples)
  add_test(NAME python_${part}
           COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/${part}_test.py
                   ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(python_${part} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
