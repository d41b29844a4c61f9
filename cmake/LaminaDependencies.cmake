# Header-only libraries, used inside .cpp files only: a program that links Lamina needs none of them.

function(lamina_missing what package)
  message(FATAL_ERROR "Lamina needs ${what}. On Debian and Ubuntu: apt install ${package} (or run scripts/install-deps.sh).")
endfunction()

find_package(Eigen3 3.4 QUIET NO_MODULE)
if(NOT TARGET Eigen3::Eigen)
  lamina_missing("Eigen 3.4 or later" libeigen3-dev)
endif()

find_package(nlohmann_json 3.10 QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  lamina_missing("nlohmann-json 3.10 or later" nlohmann-json3-dev)
endif()

find_path(LAMINA_STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb DOC "Where stb_image.h and stb_image_write.h are")
if(NOT LAMINA_STB_INCLUDE_DIR)
  lamina_missing("stb_image" libstb-dev)
endif()
mark_as_advanced(LAMINA_STB_INCLUDE_DIR)

# Its headers alone: Lamina picks the instruction set itself, so nothing is left to link.
find_path(LAMINA_HWY_INCLUDE_DIR hwy/highway.h DOC "Where hwy/highway.h is")
if(NOT LAMINA_HWY_INCLUDE_DIR)
  lamina_missing("Highway 1.0.3 or later" libhwy-dev)
endif()
mark_as_advanced(LAMINA_HWY_INCLUDE_DIR)

if(LAMINA_ONNX)
  find_path(LAMINA_PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp DOC "Where protozero/pbf_reader.hpp is")
  if(NOT LAMINA_PROTOZERO_INCLUDE_DIR)
    lamina_missing("protozero to read .onnx models (-DLAMINA_ONNX=OFF builds without them)" libprotozero-dev)
  endif()
  mark_as_advanced(LAMINA_PROTOZERO_INCLUDE_DIR)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(LAMINA_APPS)
  find_package(CLI11 QUIET)
  if(NOT TARGET CLI11::CLI11)
    lamina_missing("CLI11" libcli11-dev)
  endif()
  find_package(fmt QUIET)
  if(NOT TARGET fmt::fmt)
    lamina_missing("fmt" libfmt-dev)
  endif()
endif()

if(LAMINA_APPS OR LAMINA_TESTS)
  find_package(ZLIB QUIET)  # optional: pictures are written sooner, and `lamina serve` reads what is compressed
endif()

if(LAMINA_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main)
    lamina_missing("GoogleTest" libgtest-dev)
  endif()
endif()
