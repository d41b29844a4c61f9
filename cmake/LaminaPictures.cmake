# Finds what decodes WebP and HEIC: sets LAMINA_WITH_WEBP and LAMINA_WITH_HEIF, LAMINA_WEBP_LIBRARY and so on.

# lamina_picture_library(NAME what header package library...)
function(lamina_picture_library name what header package)
  set(found OFF)
  if(NOT LAMINA_${name} STREQUAL "OFF")
    find_path(LAMINA_${name}_INCLUDE_DIR ${header} DOC "Where ${header} is")
    find_library(LAMINA_${name}_LIBRARY NAMES ${ARGN} DOC "What decodes ${what}")
    mark_as_advanced(LAMINA_${name}_INCLUDE_DIR LAMINA_${name}_LIBRARY)
    if(LAMINA_${name}_INCLUDE_DIR AND LAMINA_${name}_LIBRARY)
      set(found ON)
    elseif(LAMINA_${name} STREQUAL "ON")
      message(FATAL_ERROR "LAMINA_${name}=ON needs ${header} and its library. On Debian and Ubuntu: apt install ${package}")
    else()
      message(STATUS "Lamina: ${what} is not read (${package} was not found)")
    endif()
  endif()
  set(LAMINA_WITH_${name} ${found} PARENT_SCOPE)
endfunction()

# Rather the archive than the shared library, so that programs run where libwebp is not installed.
set(webp libwebp.a webp)
if(BUILD_SHARED_LIBS)
  set(webp webp)
endif()
lamina_picture_library(WEBP WebP webp/decode.h libwebp-dev ${webp})

# libheif comes shared, with decoders of its own behind it: a program for other machines links it only if asked to.
if(LAMINA_HEIF STREQUAL "AUTO" AND NOT LAMINA_NATIVE)
  set(LAMINA_WITH_HEIF OFF)
else()
  lamina_picture_library(HEIF HEIC libheif/heif.h libheif-dev heif)
endif()
