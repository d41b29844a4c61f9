# cmake -D FROM=FILE -D TO=FILE -P as_string.cmake: a text as a string of C++, without comments and blank lines.
cmake_minimum_required(VERSION 3.25)
file(READ "${FROM}" text)
string(REGEX REPLACE "//[^\n]*" "" text "${text}")
string(REGEX REPLACE "\n[ \t\n]*\n" "\n" text "${text}")
file(CONFIGURE OUTPUT "${TO}" @ONLY CONTENT
     "namespace lamina::cuda {\nextern const char map_functions[];\nconst char map_functions[] = R\"ptx(@text@)ptx\";\n}\n")
