# Finds libjpeg-turbo: sets LAMINA_WITH_LIBJPEG and, with it, JPEG::JPEG. Other libjpegs decode to other pixels.
set(LAMINA_WITH_LIBJPEG OFF)
if(LAMINA_LIBJPEG STREQUAL "OFF")
  return()
endif()

# Rather the archive than the shared library, so that programs run where libjpeg is not installed.
if(NOT BUILD_SHARED_LIBS)
  find_library(JPEG_LIBRARY_RELEASE NAMES libjpeg.a jpeg)
endif()
find_package(JPEG QUIET)
if(TARGET JPEG::JPEG)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
  check_cxx_source_compiles("
    #include <cstdio>
    #include <jpeglib.h>
    #include <jerror.h>
    #if LIBJPEG_TURBO_VERSION_NUMBER < 2000000
    #error not libjpeg-turbo 2 or later
    #endif
    int main() { jpeg_decompress_struct d{}; jpeg_create_decompress(&d); }" LAMINA_HAVE_LIBJPEG_TURBO)
  unset(CMAKE_REQUIRED_LIBRARIES)
  set(LAMINA_WITH_LIBJPEG ${LAMINA_HAVE_LIBJPEG_TURBO})
endif()
if(NOT LAMINA_WITH_LIBJPEG)
  if(LAMINA_LIBJPEG STREQUAL "ON")
    message(FATAL_ERROR "LAMINA_LIBJPEG=ON needs libjpeg-turbo 2 or later. On Debian and Ubuntu: apt install libjpeg-dev")
  endif()
  message(STATUS "Lamina: JPEG is not read (libjpeg-turbo 2 or later was not found; apt install libjpeg-dev)")
endif()
