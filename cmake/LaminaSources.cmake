# lamina_sources([SMALL] [EXCEPT FILE...]): every source of this folder becomes part of the library. A new file is found
# without being listed. Kernels that need wgmma, which only 90a has, are called *.hopper.cu: no other architecture parses
# them. SMALL: what runs once, and is half of the library, is better small than fast.
function(lamina_sources)
  cmake_parse_arguments(arg "SMALL" "" "EXCEPT" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  if(LAMINA_WITH_CUDA)
    file(GLOB device CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cu")
    set(hopper ${device})
    list(FILTER hopper INCLUDE REGEX "\\.hopper\\.cu$")
    list(FILTER device EXCLUDE REGEX "\\.hopper\\.cu$")
    if(hopper)
      target_sources(lamina_hopper PRIVATE ${hopper})
    endif()
    list(APPEND sources ${device})
  endif()
  foreach(file IN LISTS arg_EXCEPT)
    list(REMOVE_ITEM sources "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
  endforeach()
  if(sources)
    target_sources(lamina_objects PRIVATE ${sources})
  endif()
  if(arg_SMALL)
    lamina_small(${sources})
  endif()
endfunction()

# lamina_small(FILE...): what runs seldom is better small than fast.
function(lamina_small)
  set(options -Os)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    list(APPEND options -Wno-maybe-uninitialized)  # false alarms in std::optional
  endif()
  set_source_files_properties(${ARGN} TARGET_DIRECTORY lamina_objects
                              PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:${options}>")
endfunction()
