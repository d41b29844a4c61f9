# Boost.Beast, headers only, and zlib for `lamina serve`, and for the tests of what it reads. The library itself knows
# nothing of them.
set(LAMINA_HAS_BEAST OFF)
if((LAMINA_APPS OR LAMINA_TESTS) AND LAMINA_SERVE)
  find_path(LAMINA_BOOST_INCLUDE_DIR boost/beast/http.hpp DOC "Where Boost's headers are")
  mark_as_advanced(LAMINA_BOOST_INCLUDE_DIR)
  if(LAMINA_BOOST_INCLUDE_DIR AND TARGET ZLIB::ZLIB)
    set(LAMINA_HAS_BEAST ON)
    add_library(lamina_http INTERFACE)
    target_include_directories(lamina_http SYSTEM INTERFACE "${LAMINA_BOOST_INCLUDE_DIR}")
    target_link_libraries(lamina_http INTERFACE ZLIB::ZLIB)
  else()
    message(STATUS "Lamina: without lamina serve, as Boost.Beast or zlib is not there (apt install libboost-dev zlib1g-dev)")
  endif()
endif()
set(LAMINA_WITH_SERVE OFF)
if(LAMINA_APPS AND LAMINA_HAS_BEAST)
  set(LAMINA_WITH_SERVE ON)
endif()

# Of apps/ what reads and answers requests: tests/ takes it without the rest of the command.
set(LAMINA_ANSWERS serve/request serve/judge serve/body serve/service serve/hosted serve/inference serve/photos
                   serve/answers serve/metrics serve/values options model_options photos/preprocess_options inputs models/shipped photos/photos
                   photos/notes_beside photos/said_of_models photos/frames known_weights shown_layer segmenter)
if(LAMINA_DETECT)
  list(APPEND LAMINA_ANSWERS photos/detect_report photos/detect_outlines)
endif()

# lamina_bake_page(TARGET): the files of the page as a source of the target.
function(lamina_bake_page target)
  set(folder "${PROJECT_SOURCE_DIR}/apps/serve")
  set(baked "${CMAKE_CURRENT_BINARY_DIR}/page.cpp")
  file(GLOB page CONFIGURE_DEPENDS "${folder}/page/*")
  add_custom_command(OUTPUT ${baked}
    COMMAND ${CMAKE_COMMAND} "-DFOLDER=${folder}/page" "-DOUTPUT=${baked}" -P "${folder}/bake_page.cmake"
    DEPENDS ${page} "${folder}/bake_page.cmake" VERBATIM)
  target_sources(${target} PRIVATE ${baked})
  set_source_files_properties(${baked} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
