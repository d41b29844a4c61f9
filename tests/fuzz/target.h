#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// What is fuzzed. A target takes any bytes; lamina::Error is its only way to refuse them. Whatever else happens is a
/// fault: another exception, a signal, a sanitizer's report, `broken`, more than a few seconds.
namespace lamina::fuzz {

using Bytes = std::span<const std::uint8_t>;

struct Target {
  std::string_view name;
  void (*run)(Bytes input);
  std::size_t max_bytes;  ///< longer inputs find nothing that shorter ones do not
};

/// The targets' functions.
void safetensors(Bytes);  // these three by content, as Weights::open does
void npy(Bytes);
void pth(Bytes);
void pickle(Bytes);  // by itself, then in a zip with three storages
void png(Bytes);
void jpeg(Bytes);    // by both decoders
void bitmap(Bytes);  // BMP, TGA, PGM and PPM
void webp(Bytes);    // these two where a build reads them; by the distribution's libraries
void heic(Bytes);
void graph(Bytes);  // lamina.graph, with weights that are there: compiled in two ways, which must agree
void model(Bytes);  // a whole model file
void onnx(Bytes);
void detector(Bytes);  // what a model that claims to be one answers
void http(Bytes);      // what a connection to `lamina serve` sends: requests, one behind the other

inline constexpr Target targets[] = {
    {"safetensors", safetensors, 4096},
    {"npy", npy, 1024},
    {"pth", pth, 8192},
    {"pickle", pickle, 4096},
    {"png", png, 8192},
    {"jpeg", jpeg, 16384},
    {"bitmap", bitmap, 4096},
    {"webp", webp, 8192},
    {"heic", heic, 16384},
    {"graph", graph, 4096},
    {"model", model, 8192},
    {"onnx", onnx, 8192},
#ifdef LAMINA_FUZZ_DETECTOR
    {"detector", detector, 256},
#endif
#ifdef LAMINA_FUZZ_HTTP
    {"http", http, 16384},
#endif
};

/// Null if there is none of that name.
const Target* find_target(std::string_view name);

/// The file that MappedFile::open gives for `input_path`: see mapped_file.cpp.
inline constexpr const char* input_path = "input";
void set_input(Bytes bytes);

/// Ends the program as a crash does, saying what should have been so.
[[noreturn]] void broken(std::string_view what);

}  // namespace lamina::fuzz
