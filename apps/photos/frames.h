#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lamina::app {

/// Bytes of the picture that a stream begins with, PNG, JPEG or PPM; 0 where it goes on beyond them. Throws Error for
/// what is none of these.
std::size_t picture_length(std::span<const unsigned char> stream);

/// The pictures that come on stdin one after the other, as `ffmpeg -f image2pipe` writes the frames of a video: each in
/// a file, frame-000001.png and so on, or stdin.png if it is one, which go when the process ends. Throws Error.
std::vector<std::filesystem::path> frames_of_stdin();

/// What to call a photograph: one of stdin frame-000001.png, without the folder that nobody chose.
std::string name_of_photo(const std::filesystem::path& photo);

}  // namespace lamina::app
