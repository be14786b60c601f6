# The Python package against the program and against what C++ computes.
add_executable(python_numbers tests/python/numbers.cpp)
penstock_compile_options(python_numbers)
target_link_libraries(python_numbers PRIVATE penstock penstock_torch)
add_test(NAME python_package
         COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/python/package_test.py
                 ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
set_tests_properties(python_package PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
