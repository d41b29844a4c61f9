# Where undefined behaviour is looked for, such code is compiled in the quickest way, but for the fuzzer, which runs it a
# million times: all checks are there at -O0 too, and two fifths of the compiler's time are not.
set(LAMINA_CHECKED)
if(CMAKE_CXX_FLAGS MATCHES "undefined" AND NOT LAMINA_FUZZ)
  set(LAMINA_CHECKED -O0)
endif()

# lamina_quick_to_compile(TARGET HEADER...) or (TARGET REUSE_FROM OTHER): for code whose own speed nobody waits for.
# Optimises little, and parses the large headers named, if any, once, or not at all where OTHER has parsed them.
function(lamina_quick_to_compile target)
  target_compile_options(${target} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>" ${LAMINA_CHECKED})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)  # false alarms in std::string
  endif()
  if(ARGV1 STREQUAL REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  elseif(ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# lamina_warnings(TARGET): the warnings this project keeps clean of; errors in its own presets.
function(lamina_warnings target)
  set(cxx -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # g++ 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
    list(APPEND cxx -Wno-restrict)
  endif()
  if(LAMINA_WARNINGS_AS_ERRORS)
    list(APPEND cxx -Werror)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--Werror all-warnings>")
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${cxx}>"
                                           "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
endfunction()
